"""Files that a mapping describes: JSON Lines, a JSON document with a list of records, or CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO

from stenolog.errors import UnknownFormatError
from stenolog.importers import (
    LONGEST_LINE,
    Importer,
    Json,
    JsonLinesReader,
    Record,
    RecordSpool,
    Skipped,
    SourceConversation,
    mappings_beside,
)

from .converter import Mapped
from .mapping import Mapping, paths_in, read_mapping, words_in

_JSON = (b"{", b"[")
_SHOWN = 12
"""So many paths of a record are named in an error."""


def read(mapping: Mapping, stream: BinaryIO, reader: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield the conversations of a file, by the mapping's `conversation` where it has one.

    Raises `UnknownFormatError`, naming the mapping's line, where no record has what the mapping says.
    """
    spool = RecordSpool()
    named = mapping.paths.get("conversation")
    first: Record | None = None
    is_found = False
    for record in _records(mapping, stream, reader):
        first = first or record
        is_found = is_found or mapping.paths["role"].find(record.value) is not None
        spool.add(words_in(named.find(record.value)) if named else "", record)
    if first is None:
        raise UnknownFormatError(f"{mapping.file}: expected records in the file, found none")
    if not is_found:
        raise _not_there(mapping, "role", first.value)
    if "text" in mapping.paths and not _has_text(mapping, spool):
        raise _not_there(mapping, "text", first.value)
    for name in spool:
        yield SourceConversation(name, spool.records(name), partial(Mapped, mapping), unit="record")


def _has_text(mapping: Mapping, spool: RecordSpool) -> bool:
    path = mapping.paths["text"]
    return any(path.find(record.value) is not None for name in spool for record in spool.records(name))


def _not_there(mapping: Mapping, setting: str, value: Json) -> UnknownFormatError:
    written = mapping.paths[setting].written
    there = list(paths_in(value))
    shown = ", ".join(there[:_SHOWN]) + (" …" if len(there) > _SHOWN else "")
    return UnknownFormatError(
        f'{mapping.location(setting)}: {setting} = "{written}": expected it in the records, found none; '
        f"the first record has {shown or 'no field'}"
    )


def _records(mapping: Mapping, stream: BinaryIO, reader: JsonLinesReader) -> Iterator[Record]:
    """Yield the records of a file: CSV where the mapping says so, or where it is neither list nor object."""
    first = stream.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
    stream.seek(0)
    if mapping.format == "csv" or (not mapping.format and first and not first.startswith(_JSON)):
        return _rows(mapping, stream)
    if "records" in mapping.paths or first.startswith(b"["):
        return _items(mapping, reader.document(stream), reader)
    return reader.records(stream)


def _rows(mapping: Mapping, stream: BinaryIO) -> Iterator[Record]:
    """Yield the rows of a CSV, whose first row names the columns."""
    csv.field_size_limit(LONGEST_LINE)
    text = TextIOWrapper(stream, "utf-8-sig", "replace", newline="")
    try:
        rows = csv.DictReader(text, delimiter=mapping.delimiter or _delimiter(text), restkey="more")
        for row in rows:
            yield Record(
                str(rows.line_num), {name: each for name, each in row.items() if each not in (None, "")}
            )
    except csv.Error as error:
        raise UnknownFormatError(
            f"{mapping.file}: expected CSV, found a file that is none: {error}"
        ) from None
    finally:
        text.detach()


def _delimiter(text: TextIOWrapper) -> str:
    """Return the sign that stands most often in the first row, of those that are usual."""
    head = text.readline()
    text.seek(0)
    return max((",", ";", "\t"), key=head.count)


def _items(mapping: Mapping, document: Json, reader: JsonLinesReader) -> Iterator[Record]:
    """Yield the objects of the list in a document."""
    path = mapping.paths.get("records")
    found = path.find(document) if path else document
    if not isinstance(found, list):
        written = f'records = "{path.written}"' if path else "records"
        raise UnknownFormatError(
            f"{mapping.location('records')}: {written}: expected a list there, found "
            f"{'nothing' if found is None else type(found).__name__}"
        )
    for number, item in enumerate(found, 1):
        if isinstance(item, dict):
            yield Record(str(number), item)
        else:
            reader.skipped.append(
                Skipped(number, f"expected an object, found {type(item).__name__}", "record")
            )


def importer_of(path: Path) -> Importer:
    """Return an importer of the files that a mapping describes. Raises `CallerError` for a bad mapping."""
    mapping = read_mapping(path)
    return replace(MAPPING, read=partial(read, mapping), with_mapping=None)


def _mapping_of(stream: BinaryIO) -> Path | None:
    """Return the mapping that stands beside the file of a stream."""
    name = getattr(stream, "name", None)
    return next(mappings_beside(Path(name)), None) if isinstance(name, str) else None


def read_beside(stream: BinaryIO, reader: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield the conversations of a file by the mapping beside it."""
    path = _mapping_of(stream)
    if path is None:
        raise UnknownFormatError("expected a mapping beside the file, found none")
    yield from read(read_mapping(path), stream, reader)


MAPPING = Importer(
    "mapping",
    read=read_beside,
    with_mapping=importer_of,
)
