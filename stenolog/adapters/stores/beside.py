"""A database file beside the log, which may be thrown away at any time.

Nothing in it is ever truth, and nothing about it may stop anybody: one that is damaged, locked or gone is as
good as an empty one, and costs time alone.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar, TypeVar

from .failures import RAISED

PATIENCE = 0.2
"""Seconds to wait for another process before doing without."""
PARTS = ("-wal", "-shm", "")
UNUSABLE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

T = TypeVar("T")


class Beside(ABC):
    """One such file; safe to share between threads. It is opened when it is first worked with."""

    pragmas: ClassVar[tuple[str, ...]]

    def __init__(self, path: str) -> None:
        self.path = path
        self._turn = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    @abstractmethod
    def prepare(self, connection: sqlite3.Connection) -> None:
        """Make the tables where they are not there."""

    def close(self) -> None:
        """Give the file back."""
        with self._turn:
            self._let_go()

    def discard(self) -> None:
        """Throw the file away."""
        with self._turn:
            self._let_go()
            self._delete()

    def work(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """What the work gives; None where the file does not let it."""
        with self._turn:
            try:
                return work(self._open())
            except RAISED as error:
                self._let_go()
                if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in UNUSABLE:
                    self._delete()
                return None
            except BaseException:  # Ctrl-C: a transaction left open would keep all others waiting
                self._let_go()
                raise

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = sqlite3.connect(
                self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            for pragma in self.pragmas:
                self._connection.execute(f"PRAGMA {pragma}")
            self.prepare(self._connection)
        return self._connection

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _delete(self) -> None:
        """The file and what belongs to it: what was written ahead would damage the next one."""
        for part in PARTS:
            with suppress(OSError):
                os.unlink(f"{self.path}{part}")
