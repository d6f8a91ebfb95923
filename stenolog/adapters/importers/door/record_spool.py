"""Records in a temporary file, to iterate a conversation of any size more than once."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterable, Iterator
from tempfile import SpooledTemporaryFile
from typing import NamedTuple

from .json_lines import Record

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
