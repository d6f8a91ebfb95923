"""Restoring: a copy replaces a log that nobody uses.

If interrupted, the next attempt moves the remaining files to where the first ones went, under the same stamp
(see `gate`).
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from glob import escape, glob
from pathlib import Path

from stenolog.adapters.store.sqlite import file_locks
from stenolog.adapters.store.sqlite.copies import publish, sync
from stenolog.adapters.store.sqlite.errors import RAISED
from stenolog.adapters.store.sqlite.file_locks import FileLock
from stenolog.adapters.store.sqlite.statements.dialect import shared
from stenolog.adapters.store.sqlite.turn import durable_head, gate
from stenolog.adapters.store.sqlite.turn.gate import RESTORE_MARK
from stenolog.domain.errors import HeldError, StoreError, StoreTimeoutError
from stenolog.domain.history import Hold, holds_of

try:
    import fcntl
except ImportError:  # pragma: no cover - not on POSIX
    fcntl = None  # type: ignore[assignment]

# The lock file stays in its place, because the restore itself has it locked.
BESIDE = ("-wal", "-shm", "-journal", "-runner-")
"""Suffixes of a database's companion files, without the lock file and the derived ones."""
DERIVED = ("-checkpoints", "-bookmarks", "-search")
"""Suffixes of files that are derived from the entries of a database: no other one may use them."""
# From SQLite's sources: the shared bytes behind PENDING_BYTE, and the locks in the shared memory.
SQLITE_LOCKS = {"": (0x40000000, 512), "-shm": (120, 9)}
"""The bytes of the database and of its shared memory that every connection of SQLite has locked."""


def replace_database(part: Path, path: Path, deadline: float, *, lift_holds: bool = False) -> list[Path]:
    """Replace a database by a finished copy; return where its files went.

    Raises `StoreTimeoutError` while any process has it open, `HeldError` for a hold that the copy lacks,
    unless `lift_holds`, and `StoreError`. Then nothing was moved.
    """
    database = str(path)
    for store in tuple(gate.OPEN):
        if not store.closed and _same(store.file, database):
            raise StoreTimeoutError(f"{path}: open in this process: close it first")
    lock = FileLock(f"{database}-lock", database)
    # Three locks, in the order in which an opening takes them: the gate, the writers' turn, SQLite's own.
    with gate.passing(database, file_locks.EXCLUSIVE, deadline):
        if not lock.acquire(deadline):
            raise StoreTimeoutError(f"{path}: waited {deadline} s for another process that writes to it")
        try:
            if not lift_holds:
                _check_holds(part, path)
            with _unused(database):
                return _replace(part, path)
        finally:
            lock.close()


def _check_holds(part: Path, path: Path) -> None:
    # Before SQLite's locks are taken: closing a connection of this process would give them up.
    kept = _holds(part)
    for hold in _holds(path):
        if hold not in kept:
            raise HeldError(
                f"{path}: {hold}: in force, and not in the backup: release it first, or restore with "
                "--lift-holds"
            )


def _holds(path: Path) -> list[Hold]:
    """Return a log's holds in force, without opening it as one; none of a file that SQLite cannot read."""
    ahead = Path(f"{path}-wal")
    # Neither changes a file: a connection that only reads does no checkpoint.
    how = "" if ahead.exists() and ahead.stat().st_size else "&immutable=1"
    with (
        suppress(*RAISED, AttributeError, TypeError, ValueError),  # what a damaged record may raise
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{how}", uri=True)) as connection,
    ):
        return [hold for hold in holds_of(shared.holds(connection)) if hold.released is None]
    return []


@contextmanager
def _unused(database: str) -> Iterator[None]:
    """Hold SQLite's locks. Raises `StoreTimeoutError` while another process has some."""
    with ExitStack() as files:
        for end, (start, length) in SQLITE_LOCKS.items():
            if fcntl is None or not os.path.isfile(f"{database}{end}"):
                continue
            try:
                file = files.enter_context(open(f"{database}{end}", "r+b"))
            except OSError as error:
                raise StoreError(f"{database}{end}: {error.strerror}") from error
            try:
                # Record locks, as SQLite's own are: only these show that a connection of another process
                # is open.
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
            except OSError:
                raise StoreTimeoutError(f"{database}: another process has it open: end it first") from None
        yield


def _replace(part: Path, path: Path) -> list[Path]:
    mark = Path(f"{path}{RESTORE_MARK}")
    moved: dict[Path, Path] = {}
    try:
        # A replacement that was interrupted goes on under its old stamp, so its files stay together.
        stamp = gate.interrupted_stamp(str(path)) or _new_stamp(path)
        mark.write_text(stamp)
        # On the disk before the first file moves: a log with half of its files must never be opened.
        sync(mark)
        _sync_folder(path)
        for old in _files(path):
            new = Path(f"{path}.before-{stamp}{str(old).removeprefix(str(path))}")
            # Else it was moved before the interruption.
            if not new.exists():
                old.rename(new)
                moved[old] = new
        _sync_folder(path)
        publish(part, path)
        # Behind it, so that a log whose replacement fails keeps them.
        for derived in _beside(path, DERIVED):
            derived.unlink()
    except OSError as error:
        for old, new in reversed(moved.items()):
            new.rename(old)
        mark.unlink(missing_ok=True)
        raise StoreError(f"{path}: cannot be replaced: {error}") from error
    # The note tells how far the other database had come, and would refuse this one.
    durable_head.forget(path)
    mark.unlink()
    _sync_folder(path)
    return sorted(Path(each) for each in glob(f"{escape(str(path))}.before-{stamp}*"))


def _files(path: Path) -> list[Path]:
    return _beside(path, BESIDE) + ([path] if path.exists() else [])


def _beside(path: Path, suffixes: Sequence[str]) -> list[Path]:
    return [Path(each) for suffix in suffixes for each in glob(f"{escape(str(path))}{suffix}*")]


def _new_stamp(path: Path) -> str:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    number = 1
    while glob(f"{escape(str(path))}.before-{stamp}*"):
        number += 1
        stamp = f"{stamp[:15]}-{number}"
    return stamp


def _same(one: str, other: str) -> bool:
    with suppress(OSError):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)


def _sync_folder(path: Path) -> None:
    if hasattr(os, "O_DIRECTORY"):  # elsewhere a folder cannot be opened
        sync(path.parent)
