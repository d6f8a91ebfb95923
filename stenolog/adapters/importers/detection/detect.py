"""Detection of a file's format by content, never by name."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from stenolog.adapters.importers.door.files import SQLITE, decompressed, regular_file, tables_in
from stenolog.adapters.importers.door.json_lines import Json, JsonLinesReader, Record, is_large
from stenolog.adapters.importers.formats import IMPORTERS, Importer
from stenolog.domain.errors import UnknownFormatError
from stenolog.projections.programs import PROGRAMS, Signature

from .other_formats import NO_IMPORTER, described, other_stream

LOOKED_AT = 200
"""The number of records by which a file's format is recognised."""
NAMED_BY = 20
"""The number of records that describe a file of an unknown format in an error."""
_HEAD = 64 * 1024
"""In how many bytes the first good line must begin, if the very first is none."""
_MCP = (b"STDIN: {", b"STDOUT: {", b"STDERR: ")
"""The beginnings of what goose's tests record of an MCP server's streams."""
FIRST, LAST = True, False
"""The two rounds in which importers are asked: those of a precedence below 0 are asked last."""


def supported() -> str:
    """Return the titles of all importable formats, for messages."""
    own = [format.name for format in PROGRAMS["stenolog"].sessions]
    *titles, last = dict.fromkeys(IMPORTERS.title(name) for name in sorted(IMPORTERS, key=own.__contains__))
    return f"{', '.join(titles)}, or {last}"


def why_refused(error: Exception) -> str:
    """Return the words of an import's error without the formats that were expected."""
    return str(error).removeprefix(f"expected {supported()}, ")


def recognise(source: str | os.PathLike[str] | bytes) -> str:
    """Return the format of a file's path, or of bytes.

    Raises `UnknownFormatError` with what was expected and found.
    """
    if isinstance(source, bytes):
        return recognise_stream(io.BytesIO(source))
    with regular_file(Path(source)) as stream, decompressed(stream) as content:
        return recognise_stream(content)


def recognise_stream(stream: BinaryIO) -> str:
    """Return a stream's format; the stream is reset to its start."""
    try:
        return _recognised(stream)
    finally:
        stream.seek(0)


def _recognised(stream: BinaryIO) -> str:
    first = stream.read(_HEAD).lstrip(b"\xef\xbb\xbf \t\r\n\0")
    stream.seek(0)
    if not first:
        raise UnknownFormatError(f"expected {supported()}, found an empty file")
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnknownFormatError("expected UTF-8, found UTF-16")
    if found := _of_start(first, stream):
        return found
    if first.startswith(SQLITE):
        tables = ", ".join([*tables_in(stream)][:6]) or "none"
        raise UnknownFormatError(f"expected {supported()}, found an SQLite database with the tables {tables}")
    if first.startswith(b"PK\x03\x04"):
        raise UnknownFormatError(f"expected {supported()}, found a ZIP archive")
    if first.startswith(b"["):
        return _of_list(stream)
    if first.startswith(b"{"):
        return _of_objects(stream)
    if b"\n{" in first:
        with suppress(UnknownFormatError):
            return _of_objects(stream)
    raise UnknownFormatError(f"expected {supported()}, found {_beginning(first)}")


def _beginning(first: bytes) -> str:
    if first.startswith(_MCP):
        return f"a recording of an MCP server, {NO_IMPORTER}"
    text = first[:20].decode(errors="replace")
    words = (text[:-1] if len(first) > 20 and text.endswith("\N{REPLACEMENT CHARACTER}") else text).strip()
    is_text = all(char.isprintable() or char.isspace() for char in words)
    if not is_text or "\N{REPLACEMENT CHARACTER}" in words:
        return "a file that is no text"
    return f"text that begins with {' '.join(words.split())!r}"


def _claimants(value: Json, *rounds: bool, whole: bool = False) -> Iterator[tuple[str, Importer]]:
    """Yield the importers to ask about a value: with a signature that it shows, or without any."""
    keys = value.keys() if isinstance(value, dict) else None
    for name, precedence, signatures in IMPORTERS.in_order("value"):
        if (precedence >= 0) not in rounds:
            continue
        for each in signatures or ():
            if keys is not None and not each.keys <= keys and keys.isdisjoint(each.inside):
                continue  # as `fits` would say, for less
            if each.fits(value, whole=whole):
                yield name, IMPORTERS[name]
                break
        if signatures is None:
            yield name, IMPORTERS[name]


def _of_start(first: bytes, stream: BinaryIO) -> str | None:
    """Return the format of a file's first bytes; None for text that must be read."""
    refused: UnknownFormatError | None = None
    is_json = first.startswith((b"{", b"["))

    @cache
    def tables() -> Mapping[str, frozenset[str]]:
        return tables_in(stream) if first.startswith(SQLITE) else {}

    for name, _, signatures in IMPORTERS.in_order("start"):
        try:
            if signatures is None and IMPORTERS[name].is_start(first, stream):
                return name
            for each in signatures or ():
                if (each.beside or each.begins or not is_json) and _starts(each, name, first, stream, tables):
                    return name
        except UnknownFormatError as error:
            refused = refused or error
        finally:
            stream.seek(0)
    if refused is not None:
        raise refused
    return None


def _starts(
    shown: Signature,
    name: str,
    first: bytes,
    stream: BinaryIO,
    tables: Callable[[], Mapping[str, frozenset[str]]],
) -> bool:
    if shown.beside:
        path = getattr(stream, "name", None)
        return isinstance(path, str) and _has_beside(Path(path), shown.beside)
    if shown.tables:
        return shown.fits_tables(tables())
    is_asked = first.startswith(shown.begins) if shown.begins else shown.fits_text(first)
    return is_asked and IMPORTERS[name].is_start(first, stream)


def _has_beside(path: Path, suffixes: Iterable[str]) -> bool:
    return any(path.with_name(f"{path.stem}{suffix}").is_file() for suffix in suffixes)


def _of_list(stream: BinaryIO) -> str:
    """Return the format of one list, or of one on each line; of a large one by its first item."""
    if is_large(stream):
        with suppress(UnknownFormatError):
            return _of_document([value for _, value in islice(JsonLinesReader().items(stream), 1)])
        stream.seek(0)
    try:
        return _of_document(JsonLinesReader().document(stream))
    except UnknownFormatError:
        stream.seek(0)
        lists = [value for _, value in islice(JsonLinesReader().values(stream), LOOKED_AT)]
        for name, importer in _claimants(lists, FIRST, LAST):
            if any(map(importer.is_record, lists)):
                return name
        if len(lists) > 1 and all(isinstance(value, list) for value in lists[:2]):
            raise UnknownFormatError(f"expected {supported()}, found {_lists(lists)}") from None
        raise


def _lists(lines: list[Json]) -> str:
    calls = [line for line in lines if len(line) == 2 and str(line[0]).startswith("client.")]
    return f"a LangSmith recording of API calls, {NO_IMPORTER}" if calls else "a list on each line"


def _of_objects(stream: BinaryIO) -> str:
    """Return JSON Lines' format, unless the whole file is one object."""
    first = list(islice(_records(stream), NAMED_BY))
    refused: UnknownFormatError | None = None
    if not first or first[0].number != 1:
        try:
            stream.seek(0)
            return _of_document(JsonLinesReader().document(stream))
        except UnknownFormatError as error:
            if not first:
                raise
            refused = error
    elif len(first) == 1:
        with suppress(UnknownFormatError):
            return _of_document(first[0].value)
    if found := _of_lines(stream):
        return found
    what = described(first[0].value, [record.value for record in first[1:]])
    raise refused or UnknownFormatError(f"expected {supported()}, found {what}")


def _records(stream: BinaryIO) -> Iterator[Record]:
    stream.seek(0)
    return islice(JsonLinesReader().records(stream), LOOKED_AT)


def _of_document(document: Json) -> str:
    for name, importer in _claimants(document, FIRST, LAST, whole=True):
        if importer.is_document(document):
            return name
    raise UnknownFormatError(f"expected {supported()}, found {described(document)}")


def _of_lines(stream: BinaryIO) -> str | None:
    values = []
    for record in _records(stream):
        value = record.value
        if name := _of_record(value, FIRST):
            return name
        if other := other_stream(value):
            raise UnknownFormatError(f"expected {supported()}, found {other}, {NO_IMPORTER}")
        if name := _of_record(value, LAST):
            if other := IMPORTERS[name].other(_records(stream)):
                raise UnknownFormatError(f"expected {supported()}, found {other}, {NO_IMPORTER}")
            return name
        values.append(value)
    likely = (name for name, importer in _claimants(values, LAST) if importer.is_likely(values))
    return next(likely, None)


def _of_record(value: Json, asked: bool) -> str:
    return next((name for name, each in _claimants(value, asked) if each.is_record(value)), "")
