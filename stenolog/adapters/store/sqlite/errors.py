"""sqlite3's errors as ours, by fault: the caller's, the data's or the machine's."""

from __future__ import annotations

import errno
import os
import sqlite3

from stenolog.domain import errors

try:
    import fcntl
except ImportError:  # pragma: no cover - not on POSIX
    fcntl = None  # type: ignore[assignment]

# `UnicodeDecodeError` comes where text of a damaged file gets into SQLite's message.
RAISED = (sqlite3.Error, UnicodeDecodeError)
"""The exceptions that sqlite3 raises."""
BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
"""The codes of a file system that has no locks to give."""
DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_CONSTRAINT}


def to_store_error(error: sqlite3.Error | UnicodeDecodeError, where: str) -> errors.StenologError:
    """Return the equivalent error of ours; `where` is the file."""
    if isinstance(error, UnicodeDecodeError):
        return errors.CorruptLogError(f"{where}: {error.object!r}")
    code = getattr(error, "sqlite_errorcode", None)
    # Python's module raised it, and not the library under it.
    if code is None:
        return _error_for(error, where)
    # The bits above are SQLite's extended codes.
    primary = code & 0xFF
    if primary in BUSY:
        # To SQLite a file system without locks is one whose locks are taken.
        if refused := _lock_refusal(os.path.dirname(where) or "."):
            return without_locks(where, refused)
        return errors.StoreTimeoutError(f"{where}: another program holds the write lock ({error})")
    if primary in DAMAGED:
        return errors.CorruptLogError(f"{where}: {error}")
    if primary == sqlite3.SQLITE_NOTADB:
        return errors.NotADatabaseError(
            f"{where}: expected a stenolog database, found a file that is not SQLite"
        )
    if primary == sqlite3.SQLITE_TOOBIG:
        return errors.InvalidEventError(f"{where}: one entry or blob can be 1 GB long at most ({error})")
    return errors.StoreError(f"{where}: {error} ({error.sqlite_errorname})")


def without_locks(where: str, error: OSError) -> errors.StoreError:
    """Return the error for a file on a file system without locks."""
    return errors.StoreError(
        f"{where}: expected a file system that can lock files, found one that refuses to ({error.strerror}), "
        "such as NFS without a lock service: put the log on a local disk"
    )


def _lock_refusal(folder: str) -> OSError | None:
    try:
        from tempfile import TemporaryFile

        with TemporaryFile(dir=folder) as file:
            if fcntl is not None:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error if error.errno in NO_LOCKS else None
    return None


def _error_for(error: sqlite3.Error, where: str) -> errors.StenologError:
    if "decode" in str(error):
        return errors.CorruptLogError(f"{where}: expected UTF-8 text, found other bytes")
    if "closed" in str(error):
        return errors.StoreError(f"{where}: the log was closed")
    return errors.StoreError(f"{where}: {error}")
