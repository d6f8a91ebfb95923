"""Journal of a tap: append-only segment files between the relay and the recording process.

A segment is `GENERATION-NUMBER.segment`; each relay process is a generation. A record whose length or
checksum is wrong ends its segment: the writer was killed there, or the power failed.

| kind | payload |
|---|---|
| request | JSON: id, run, time, method, path, upstream, host, headers; unproven and redacted where true |
| body | the request's content without its framing, coded as it was sent |
| ready | JSON: bytes and sha256 of that content; nothing goes up before this is on disk |
| response | JSON: status, headers |
| data | the answer's content without its framing, coded as it came |
| up, down | bytes of a websocket, after a response with status 101 |
| end | JSON: reason, sha256 of the answer's content as it came; decoded and redacted where it was redacted |
| gap | JSON: reason, exchanges that were not recorded or in part, since (ns); its exchange is its own |

Reasons of an end: "" for an answer that is complete, client-closed, upstream-closed, tap-ended and
relay-stopped; with a text after a colon upstream-failed, request-not-understood, answer-not-understood
and not-recorded.
An `end` may be the only record of an exchange whose request was lost in a gap.

The reader yields every record at least once. After a kill it reads again the exchanges not marked as done,
and some that were: an exchange number is unique in its run.
"""

from __future__ import annotations

import os
import select
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from pydantic_core import to_json

MAGIC = b"stenolog-tap/1\n\0"
HEADER = Struct("<IIBQQ")
"""Length of the payload, checksum of all that follows it, kind, exchange, time."""
CHECKSUM_AT = 8
"""The bytes of a header that its checksum does not cover."""
KINDS = ("request", "body", "ready", "response", "data", "end", "up", "down", "gap")
MAX_PAYLOAD_BYTES = 1 << 24
"""A length beyond this is no length: the relay writes pieces of at most some hundred kilobytes."""
READ_BYTES = 1 << 20
GATHER_SECONDS = 0.01
"""The pause after a notification, so that a busy relay does not wake its reader for each chunk."""
SUFFIX = ".segment"
CUT = "relay-stopped"
"""Reason of the `end` that the reader adds for an exchange whose relay died."""


class JournalRecord(NamedTuple):
    """A record; `exchange` is unique in a run, `time_ns` counts from the epoch."""

    kind: str
    exchange: int
    time_ns: int
    payload: bytes


def encode(kind: str, exchange: int, time_ns: int, payload: bytes) -> bytes:
    """Return a record's header, which the payload follows."""
    rest = HEADER.pack(0, 0, KINDS.index(kind), exchange, time_ns)[CHECKSUM_AT:]
    checksum = zlib.crc32(payload, zlib.crc32(rest))
    return HEADER.pack(len(payload), checksum, KINDS.index(kind), exchange, time_ns)


def segment_name(generation: int, number: int) -> str:
    """Return a segment's file name; names sort in writing order."""
    return f"{generation:06}-{number:06}{SUFFIX}"


def generation_of(path: Path) -> int:
    """Return the generation of a segment."""
    return int(path.name.partition("-")[0])


def segments(folder: Path) -> list[Path]:
    """Return the segments in writing order, if any."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(SUFFIX))
    except FileNotFoundError:
        return []
    return [folder / name for name in names]


class _Segment:
    """An open segment, read up to `offset`; `exchanges` are not yet recorded."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.generation = generation_of(path)
        self.offset = 0
        self.exchanges: set[int] = set()
        self._file = path.open("rb", buffering=0)

    def records(self) -> Iterator[JournalRecord]:
        """Yield the complete records from `offset` on."""
        if self.offset == 0:
            if self._read(len(MAGIC)) != MAGIC:
                return
            self.offset = len(MAGIC)
        buffer, at = self._read(READ_BYTES), 0
        while True:
            size = _record_size(buffer, at)
            if size is None or len(buffer) - at < size:
                wanted = max(READ_BYTES, size or 0)
                at, buffer = 0, self._read(wanted)
                size = _record_size(buffer, 0)
                if size is not None and len(buffer) < size:  # only its header has told how long it is
                    buffer = self._read(size)
                if size is None or len(buffer) < size:
                    return
            record = _decode(buffer, at, size)
            if record is None:
                return
            at += size
            self.offset += size
            self.exchanges.add(record.exchange)
            yield record

    def close(self) -> None:
        self._file.close()

    def _read(self, size: int) -> bytes:
        return os.pread(self._file.fileno(), size, self.offset)


def _record_size(buffer: bytes, at: int) -> int | None:
    if len(buffer) - at < HEADER.size:
        return None
    length = int.from_bytes(buffer[at : at + 4], "little")
    return HEADER.size + length if length <= MAX_PAYLOAD_BYTES else None


def _decode(buffer: bytes, at: int, size: int) -> JournalRecord | None:
    _, checksum, kind, exchange, time_ns = HEADER.unpack_from(buffer, at)
    covered = memoryview(buffer)[at + CHECKSUM_AT : at + size]
    if zlib.crc32(covered) != checksum or kind >= len(KINDS):
        return None
    return JournalRecord(KINDS[kind], exchange, time_ns, buffer[at + HEADER.size : at + size])


class JournalReader:
    """Reader of a run's journal, which follows it while relays write, and deletes what was recorded.

    `notify` is the read end of the relays' pipe; at its end none will follow. Without it the journal is
    complete. Not safe for several threads.
    """

    def __init__(self, folder: Path, notify: int | None = None) -> None:
        self.folder = folder
        self._notify = notify
        self._over = notify is None
        self._segment: _Segment | None = None
        self._passed: list[_Segment] = []
        self._last_name = ""
        self._open: dict[int, int] = {}

    def __iter__(self) -> Iterator[JournalRecord]:
        """Yield the records in writing order, until no relay can write.

        An exchange whose relay died gets an `end` with the reason "relay-stopped".
        """
        while True:
            # The state is read before the folder: whatever was written until then is in the folder.
            over = self._over
            for record in self._available(over):
                if record.kind == "request":
                    self._open[record.exchange] = record.time_ns
                elif record.kind == "end":
                    self._open.pop(record.exchange, None)
                yield record
            if over:
                return
            self._wait()

    def done(self, exchange: int) -> None:
        """Mark an exchange or gap as recorded; delete segments with nothing else."""
        for segment in self._passed:
            segment.exchanges.discard(exchange)
        if self._segment:
            self._segment.exchanges.discard(exchange)
        self._delete_recorded()

    def close(self) -> None:
        """Close the files; remove the folder, and the one above, if empty."""
        self._delete_recorded()
        for segment in (*self._passed, self._segment):
            if segment:
                segment.close()
        with suppress(OSError):
            self.folder.rmdir()
            self.folder.parent.rmdir()

    def _available(self, over: bool) -> Iterator[JournalRecord]:
        while True:
            # A later segment proves that this one is complete, so the folder is listed first.
            paths = segments(self.folder)
            if self._segment is None:
                self._segment = self._next(paths)
            segment = self._segment
            if segment is None:
                break
            yield from segment.records()
            later = [path for path in paths if path.name > segment.path.name]
            if not later and not over:
                return
            self._passed.append(segment)
            self._last_name, self._segment = segment.path.name, None
            segment.close()
            if not later or generation_of(later[0]) != segment.generation:
                yield from self._cut(segment)

    def _next(self, paths: list[Path]) -> _Segment | None:
        for path in paths:
            if path.name > self._last_name:
                return _Segment(path)
        return None

    def _cut(self, segment: _Segment) -> Iterator[JournalRecord]:
        payload = to_json({"reason": CUT, "sha256": ""})
        for exchange, time_ns in list(self._open.items()):
            segment.exchanges.add(exchange)
            yield JournalRecord("end", exchange, time_ns, payload)

    def _delete_recorded(self) -> None:
        for segment in [each for each in self._passed if not each.exchanges]:
            self._passed.remove(segment)
            segment.path.unlink(missing_ok=True)

    def _wait(self) -> None:
        if self._notify is None:
            self._over = True
            return
        select.select([self._notify], [], [])
        time.sleep(GATHER_SECONDS)
        self._over = os.read(self._notify, READ_BYTES) == b""
