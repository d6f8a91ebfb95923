"""Translation of sqlite3's errors to ours, by fault: the caller's, the stored data's or the machine's."""

from __future__ import annotations

import sqlite3
from threading import Thread

from stenolog.domain.errors import (
    CorruptLogError,
    InvalidEventError,
    NotADatabaseError,
    StenologError,
    StoreError,
    StoreTimeoutError,
)

# `UnicodeDecodeError` comes where text of a damaged file gets into SQLite's message.
RAISED = (sqlite3.Error, UnicodeDecodeError)
"""The exceptions that sqlite3 raises."""
BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_CONSTRAINT}


def to_store_error(error: sqlite3.Error | UnicodeDecodeError, where: str) -> StenologError:
    """Return the error of ours that says the same; `where` is the file it happened in."""
    if isinstance(error, UnicodeDecodeError):
        return CorruptLogError(f"{where}: {error.object!r}")
    code = getattr(error, "sqlite_errorcode", None)
    # Python's module raised it, and not the library under it.
    if code is None:
        return _error_for(error, where)
    # The bits above are SQLite's extended codes.
    primary = code & 0xFF
    if primary in BUSY:
        return StoreTimeoutError(f"{where}: another program holds the write lock ({error})")
    if primary in DAMAGED:
        return CorruptLogError(f"{where}: {error}")
    if primary == sqlite3.SQLITE_NOTADB:
        return NotADatabaseError(f"{where}: expected a stenolog database, found a file that is not SQLite")
    if primary == sqlite3.SQLITE_TOOBIG:
        return InvalidEventError(f"{where}: one entry or blob can be 1 GB long at most ({error})")
    return StoreError(f"{where}: {error} ({error.sqlite_errorname})")


def started(thread: Thread, where: str) -> None:
    """Start a thread. Raises `StoreError` where the machine has none to give."""
    try:
        thread.start()
    # "can't start new thread": the machine's limit, and not a fault of ours.
    except RuntimeError as error:
        raise StoreError(f"{where}: {error}") from error


def _error_for(error: sqlite3.Error, where: str) -> StenologError:
    if "decode" in str(error):
        return CorruptLogError(f"{where}: expected UTF-8 text, found other bytes")
    if "closed" in str(error):
        return StoreError(f"{where}: the log was closed")
    return StoreError(f"{where}: {error}")
