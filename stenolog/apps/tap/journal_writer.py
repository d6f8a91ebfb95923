"""Writer of a tap's journal: one thread writes, and waiting requests share one fdatasync.

A failing journal stops no traffic. The writer drops the records of those exchanges, retries, and then appends
a `gap` with the reason and their number.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from pydantic_core import to_json

from .journal import MAGIC, encode, segment_name

SEGMENT_BYTES = 64 << 20
SYNC_SECONDS = 0.5
"""Answers are synchronised this often; a killed process loses nothing of them, a power failure this much."""
RETRY_SECONDS = 0.25
CLOSE_SECONDS = 4.0
BATCH_RECORDS = 400
"""Two buffers each, below the 1,024 that a system takes at once."""
BATCH_BYTES = 4 << 20

_fdatasync = getattr(os, "fdatasync", os.fsync)  # macOS has none

Committed = Callable[[str], None]
"""Called in the writer's thread: "" where all that was added before is on disk, else the reason."""


class JournalEntry:
    """A record on its way to the disk. `load` returns its payload, from memory or the file."""

    __slots__ = ("_file", "_offset", "_size", "exchange", "in_memory", "kind", "payload", "time_ns")

    def __init__(self, kind: str, exchange: int, payload: bytes, in_memory: bool) -> None:
        self.kind, self.exchange, self.payload, self.in_memory = kind, exchange, payload, in_memory
        self.time_ns = time.time_ns()
        self._size = len(payload)
        self._file: _SegmentFile | None = None
        self._offset = 0

    def written(self, file: _SegmentFile, offset: int) -> None:
        """Note the payload's offset in a segment; drop it from memory unless it stays there."""
        if not self.in_memory:
            self._file, self._offset, self.payload = file, offset, b""

    def load(self) -> bytes:
        """Return the payload. Raises OSError if the file cannot be read."""
        if self._file is None:
            return self.payload
        found = os.pread(self._file.number, self._size, self._offset)
        if len(found) != self._size:
            raise OSError(None, f"expected {self._size} bytes at {self._offset}, found {len(found)}")
        return found


class _SegmentFile:
    """A segment being written; it stays open while an entry can be read back from it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self.size = 0

    def append(self, buffers: list[bytes]) -> None:
        """Write the buffers. Raises OSError; the file then ends at the last complete append, if possible."""
        size = sum(map(len, buffers))
        done = os.writev(self.number, buffers)
        if done < size:
            remaining = memoryview(b"".join(buffers))[done:]
            try:
                while remaining:
                    remaining = remaining[os.write(self.number, remaining) :]
            except OSError:
                with suppress(OSError):
                    os.ftruncate(self.number, self.size)
                raise
        self.size += size

    def sync(self) -> None:
        """Wait until the disk has the data. Raises OSError, also if the file was deleted."""
        _fdatasync(self.number)
        if os.fstat(self.number).st_nlink == 0:
            raise FileNotFoundError(None, "the journal's file was deleted", str(self.path))

    def __del__(self) -> None:
        with suppress(OSError, AttributeError):
            os.close(self.number)


class JournalWriter:
    """Appends records to the segments of one generation.

    `notify` is the write end of the pipe that wakes the recording process. `handled_bytes` counts payloads
    written, or dropped for a `problem`. Safe for threads.
    """

    def __init__(
        self, folder: Path, generation: int, notify: int | None = None, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        self.folder = folder
        self.problem = ""
        self.handled_bytes = 0
        self._generation, self._number = generation, 0
        self._notify, self._segment_bytes = notify, segment_bytes
        self._queue: queue.SimpleQueue[list[JournalEntry | Committed] | None] = queue.SimpleQueue()
        self._file: _SegmentFile | None = None
        self._dirty = False
        self._begun: set[int] = set()
        self._lost: set[int] = set()
        self._without_end: set[int] = set()
        self._lost_count, self._since, self._retry_at = 0, 0, 0.0
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def put(self, entries: list[JournalEntry | Committed]) -> None:
        """Append entries in order; a function among them is called once all before it are on disk."""
        self._queue.put(entries)

    def close(self) -> None:
        """Write and sync what was added, and end the thread, unless the disk hangs."""
        self._queue.put(None)
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        running = True
        while running:
            try:
                first = self._queue.get(timeout=SYNC_SECONDS if self._dirty or self.problem else None)
            except queue.Empty:
                self._sync()
                self._append_part([])
                continue
            batch, running = self._gathered(first)
            self._write(batch)
        self._sync()
        self._retry_at = 0
        self._append_part([])

    def _gathered(
        self, first: list[JournalEntry | Committed] | None
    ) -> tuple[list[JournalEntry | Committed], bool]:
        batch: list[JournalEntry | Committed] = []
        while first is not None:
            batch += first
            if len(batch) >= BATCH_RECORDS:
                return batch, True
            try:
                first = self._queue.get_nowait()
            except queue.Empty:
                return batch, True
        return batch, False

    def _write(self, batch: list[JournalEntry | Committed]) -> None:
        entries = [item for item in batch if isinstance(item, JournalEntry)]
        waiting = [item for item in batch if not isinstance(item, JournalEntry)]
        self._append(entries)
        if waiting:
            self._sync()
        for committed in waiting:
            committed(self.problem)
        if entries and self._notify is not None and not self.problem:
            with suppress(OSError):  # full: a notification waits already; closed: its reader will be back
                os.write(self._notify, b"\0")

    def _append(self, entries: Iterable[JournalEntry]) -> None:
        part: list[JournalEntry] = []
        size = 0
        for entry in entries:
            part.append(entry)
            size += len(entry.payload)
            if len(part) == BATCH_RECORDS or size >= BATCH_BYTES:
                self._append_part(part)
                part, size = [], 0
        if part:
            self._append_part(part)

    def _append_part(self, entries: list[JournalEntry]) -> None:
        size = sum(len(entry.payload) for entry in entries)
        self._append_or_drop(entries)
        self.handled_bytes += size

    def _append_or_drop(self, entries: list[JournalEntry]) -> None:
        if self.problem and time.monotonic() < self._retry_at:
            self._drop(entries)
            return
        try:
            if self.problem:
                self._recover()
            entries = [entry for entry in entries if not self._is_lost(entry)]
            if entries:
                self._append_to_file(entries)
        except OSError as error:
            self._fail(error, entries)

    def _is_lost(self, entry: JournalEntry) -> bool:
        """Return whether an earlier record of the exchange was dropped; its last one clears that."""
        if entry.exchange not in self._lost:
            return False
        if entry.kind == "end":
            self._lost.discard(entry.exchange)
        return True

    def _append_to_file(self, entries: list[JournalEntry]) -> None:
        file = self._file
        if file is None or file.size >= self._segment_bytes:
            file = self._next_file()
        buffers: list[bytes] = []
        offset = file.size
        offsets = []
        for entry in entries:
            header = encode(entry.kind, entry.exchange, entry.time_ns, entry.payload)
            offset += len(header)
            offsets.append(offset)
            offset += len(entry.payload)
            buffers += (header, entry.payload)
        file.append(buffers)
        self._dirty = True
        for entry, at in zip(entries, offsets, strict=True):
            entry.written(file, at)
            if entry.kind == "request":
                self._begun.add(entry.exchange)
            elif entry.kind == "end":
                self._begun.discard(entry.exchange)

    def _next_file(self) -> _SegmentFile:
        if self._dirty and self._file:
            self._file.sync()
            self._dirty = False
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._number += 1
        self._file = None
        file = _SegmentFile(self.folder / segment_name(self._generation, self._number))
        file.append([MAGIC])
        self._file = file
        return file

    def _sync(self) -> None:
        if not self._dirty or not self._file:
            return
        self._dirty = False
        try:
            self._file.sync()
        except OSError as error:
            self._fail(error, [])
            # What became of the records of these exchanges is not known, so they are not continued.
            self._lost_count += len(self._begun - self._lost)
            self._lost |= self._begun
            self._without_end |= self._begun

    def _fail(self, error: OSError, entries: list[JournalEntry]) -> None:
        if not self.problem:
            self._since = time.time_ns()
            self._lost_count = 0
        self.problem = error.strerror or str(error)
        self._file, self._dirty = None, False
        self._retry_at = time.monotonic() + RETRY_SECONDS
        self._drop(entries)

    def _drop(self, entries: list[JournalEntry]) -> None:
        for entry in entries:
            if entry.exchange not in self._lost:
                self._lost_count += 1
            if entry.kind == "end":
                self._lost.discard(entry.exchange)
            else:
                self._lost.add(entry.exchange)
            if entry.exchange in self._begun:
                self._without_end.add(entry.exchange)

    def _recover(self) -> None:
        """Begin a segment with a `gap`. Raises OSError if the journal still cannot be written."""
        gap = {"reason": self.problem, "exchanges": self._lost_count, "since": self._since}
        end = to_json({"reason": f"not-recorded: {self.problem}", "sha256": ""})
        ends = [JournalEntry("end", exchange, end, True) for exchange in sorted(self._without_end)]
        number = (self._generation << 32) + (1 << 31) + self._number
        self._append_to_file([JournalEntry("gap", number, to_json(gap), True), *ends])
        self.problem = ""
        self._without_end.clear()
