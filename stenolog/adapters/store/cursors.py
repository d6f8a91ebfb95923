"""Cursors: how far a follower of the log has come. `follow` gives each new entry as it is appended.

A cursor is written in the transaction of what was done, where that is done in the same database (exactly
once), and after it, where it is done outside (at least once). It is no truth: without it one begins at the
beginning.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.errors import StoreError

from .database import LogDatastore

MARK = "SELECT position, piece FROM tracking WHERE name = ? AND stream = ?"
SET = "INSERT OR REPLACE INTO tracking (name, stream, position, piece) VALUES (?, ?, ?, ?)"
EVERYWHERE = 0
"""In the place of a stream, for those who follow all of the log: their positions are its notification ids."""


class Cursor(NamedTuple):
    """All entries up to `position` are done with, and so many pieces of the one behind it."""

    position: int = 0
    piece: int = 0


def load_cursor(connection: sqlite3.Connection, name: str, stream: int = EVERYWHERE) -> Cursor:
    """Return the position that the follower `name` has reached; the beginning if it never saved one."""
    row = connection.execute(MARK, (name, stream)).fetchone()
    return Cursor(*row) if row else Cursor()


def advance(connection: sqlite3.Connection, name: str, to: Cursor, stream: int = EVERYWHERE) -> None:
    """Note how far it has come."""
    connection.execute(SET, (name, stream, *to))


def forget(connection: sqlite3.Connection, name: str) -> None:
    """Have it begin at the beginning again, everywhere."""
    connection.execute("DELETE FROM tracking WHERE name = ?", (name,))


Unread: TypeAlias = Callable[[int], Iterator[tuple[int, Entry]]]
"""The entries behind a mark, each with the mark to go on from."""


def follow(datastore: LogDatastore, unread: Unread, mark: int, timeout: float | None) -> Iterator[Entry]:
    """The entries behind `mark`, without end.

    It ends when `timeout` seconds pass without a new one (None: never), and when the log is closed.
    """
    woken = threading.Event()
    with datastore.bell.subscribe(woken.set):
        quiet_until = _from_now(timeout)
        while not datastore.closed:
            woken.clear()  # before reading: what comes after that wakes us again
            try:
                for last, entry in unread(mark):
                    mark = last
                    yield entry
                    quiet_until = _from_now(timeout)
            except StoreError:
                if not datastore.closed:
                    raise
            left = quiet_until - time.monotonic()
            if left <= 0 or not woken.wait(min(left, threading.TIMEOUT_MAX)):
                return


def _from_now(timeout: float | None) -> float:
    return float("inf") if timeout is None else time.monotonic() + timeout
