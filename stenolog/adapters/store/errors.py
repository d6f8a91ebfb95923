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

RAISED = (sqlite3.Error, UnicodeDecodeError)
"""The exceptions of sqlite3; it raises the second if the text of a damaged file gets into its message."""
BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_CONSTRAINT}


def to_store_error(error: sqlite3.Error | UnicodeDecodeError, where: str) -> StenologError:
    """Return the error of ours that says the same; `where` is the file it happened in."""
    if isinstance(error, UnicodeDecodeError):
        return CorruptLogError(f"{where}: {error.object!r}")
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # raised by the module itself, not by the library
        return _error_for(error, where)
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
    except RuntimeError as error:
        raise StoreError(f"{where}: {error}") from error


def _error_for(error: sqlite3.Error, where: str) -> StenologError:
    if "decode" in str(error):
        return CorruptLogError(f"{where}: expected UTF-8 text, found other bytes")
    if "closed" in str(error):
        return StoreError(f"{where}: the log was closed")
    return StoreError(f"{where}: {error}")
