"""Records of a conversation of any size, to iterate more than once."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterable, Iterator
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, NamedTuple

from stenolog.domain.errors import UnknownFormatError

from .json_lines import Json, JsonLinesReader, Record

_IN_MEMORY = 4 * 1024 * 1024


class _Place(NamedTuple):
    line: str
    start: int
    size: int


class RecordSpool:
    """A file's records by conversation name, in order.

    For formats that `LineFormat` does not fit: without session names, or not of JSON lines. Memory has three
    numbers per record.
    """

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 (it lives as long as the spool)
        weakref.finalize(self, self._file.close)
        self._places: dict[str, list[_Place]] = {}

    def add(self, name: str, record: Record) -> None:
        """Add a record to a conversation."""
        start = self._file.seek(0, 2)
        size = self._file.write(json.dumps(record.value, separators=(",", ":")).encode())
        self._places.setdefault(name, []).append(_Place(record.line, start, size))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def records(self, name: str) -> Iterable[Record]:
        """Return a conversation's records, iterable more than once."""
        return _Records(self, self._places.get(name, []))

    def read(self, place: _Place) -> Record:
        """Return the record at a place."""
        self._file.seek(place.start)
        return Record(place.line, json.loads(self._file.read(place.size)))


class _Records:
    def __init__(self, spool: RecordSpool, places: list[_Place]) -> None:
        self._spool = spool
        self._places = places

    def __iter__(self) -> Iterator[Record]:
        return map(self._spool.read, self._places)


class StreamedRecords:
    """A file's records, read again for each iteration; faults are the last one's."""

    def __init__(self, stream: BinaryIO, reading: JsonLinesReader) -> None:
        self._stream = stream
        self._reading = reading

    def __iter__(self) -> Iterator[Record]:
        self._stream.seek(0)
        self._reading.begin()
        return self._reading.records(self._stream)

    def document(self) -> Json:
        """Return the file's single JSON value; None if it is none."""
        whole = JsonLinesReader()
        self._stream.seek(0)
        try:
            value = whole.document(self._stream)
        except UnknownFormatError:
            return None
        if value is not None:
            self._reading.begin()
            self._reading.repaired = whole.repaired
        return value
