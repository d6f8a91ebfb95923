"""Room in the write-ahead log: its file is made longer ahead of what is written to it.

A commit that makes a file longer waits for the file system, too, to note how long it is now; one that writes
into what is there already does not, and takes little more than half as long. SQLite writes over its
write-ahead log again and again, but what comes first after each opening makes it longer.
"""

from __future__ import annotations

import os

STEP = 65_536
"""Bytes at once: a few appends' worth, so that nobody waits long for those of others."""
ZEROS = bytes(STEP)
"""No frame of SQLite's: it takes them for the end, as it does what is left of an earlier round."""


class WalPreallocator:
    """The room in one write-ahead log, up to some `enough` bytes; it is made at its end, wherever that is."""

    def __init__(self, path: str, enough: int) -> None:
        self.path = path
        self.enough = enough
        self._file: int | None = None
        self._end = 0

    def make(self) -> None:
        """Make room where there is none left. Where that fails, SQLite does without, or says why."""
        if self._end >= self.enough:
            return
        try:
            if self._file is None:
                self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0))
            end = os.lseek(self._file, 0, os.SEEK_END)
            if end >= self.enough:  # others have made it
                self._end = end
            elif end != self._end:
                self._end = end + os.write(self._file, ZEROS)
        except OSError:
            self._end = self.enough

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
