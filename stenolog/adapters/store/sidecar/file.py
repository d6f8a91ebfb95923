"""A disposable database file beside the log.

A damaged, locked or missing file counts as empty; callers never see its errors.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar, TypeVar

from stenolog.adapters.store.contract.values import MEMORY
from stenolog.adapters.store.sqlite import file_safety
from stenolog.adapters.store.sqlite.errors import RAISED
from stenolog.adapters.store.sqlite.statements.event_rows import SelfClosingConnection

# Short, since the caller can do without the file.
PATIENCE = 0.2
"""Seconds to wait for another process before the caller does without the file."""
# Longer, because deleted words must not stay in the file.
WAIT_MS = 2_000
"""Milliseconds to wait for another process where words are to be deleted."""
# The database last: its journals, left alone, would be taken for those of the next file.
PARTS = ("-wal", "-shm", "")
RETIRED = ("-bookmarks",)
"""Suffixes of files that earlier releases left beside a log; some hold words of its conversations."""
UNUSABLE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

T = TypeVar("T")


class Sidecar(ABC):
    """A disposable file, opened at first use; thread-safe.

    Callers of `open`, `let_go` and `delete` hold `guard`.
    """

    pragmas: ClassVar[tuple[str, ...]]
    patience: ClassVar[float] = PATIENCE

    def __init__(self, path: str, database: str) -> None:
        self.path = path
        self._database = database
        self.guard = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def __del__(self) -> None:
        # A log that nothing refers to is closed with its files. No other thread can have the guard here.
        if getattr(self, "_connection", None) is not None:
            self.let_go()

    @abstractmethod
    def prepare(self, connection: sqlite3.Connection) -> None:
        """Create missing tables."""

    def close(self) -> None:
        with self.guard:
            self.let_go()

    def discard(self) -> None:
        with self.guard:
            self.delete()

    def work(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Run `work` on the file and return its result; None if the file is unusable."""
        with self.guard:
            try:
                return work(self.open())
            except RAISED as error:
                self.give_up(error)
                return None
            # Ctrl-C: a transaction left open would keep all other processes waiting.
            except BaseException:
                self.let_go()
                raise

    def erase(self, statement: str, *values: object) -> None:
        """Delete rows, leaving no byte in the file; if that fails, delete the file."""
        if not os.path.exists(self.path):
            return

        def erase(connection: sqlite3.Connection) -> bool:
            connection.execute(f"PRAGMA busy_timeout = {WAIT_MS}")
            connection.execute(statement, values)
            # The write-ahead log still has the deleted rows until it is cut to nothing.
            (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            connection.execute(f"PRAGMA busy_timeout = {int(self.patience * 1000)}")
            return not busy

        # A reader in another process keeps the write-ahead log: then the whole file goes.
        if not self.work(erase):
            self.discard()

    def give_up(self, error: Exception) -> None:
        """Close the file; delete it if the error says it is damaged."""
        # An error without a code is Python's own, such as text that is no UTF-8: damage as well.
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in UNUSABLE:
            self.delete()
        else:
            self.let_go()

    def open(self) -> sqlite3.Connection:
        if self._connection is None:
            if self.path not in ("", MEMORY):
                for part in PARTS[:-1]:
                    file_safety.follow_permissions(f"{self.path}{part}", self._database, make=False)
                file_safety.follow_permissions(self.path, self._database)
            self._connection = sqlite3.connect(
                self.path,
                timeout=self.patience,
                isolation_level=None,
                check_same_thread=False,
                factory=SelfClosingConnection,
            )
            for pragma in self.pragmas:
                self._connection.execute(f"PRAGMA {pragma}")
            self.prepare(self._connection)
        return self._connection

    def let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def delete(self) -> None:
        """Delete the file and its journals."""
        self.let_go()
        if self.path not in ("", MEMORY):
            _unlink(self.path)


def delete_retired(database: str) -> None:
    """Delete files of an earlier release beside a log."""
    for suffix in RETIRED if database != MEMORY else ():
        _unlink(f"{database}{suffix}")


def _unlink(path: str) -> None:
    for part in PARTS:
        with suppress(OSError):
            os.unlink(f"{path}{part}")
