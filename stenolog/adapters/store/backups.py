"""Backups: a database copied as it is at one moment, and put in the place of a log that nobody uses.

A file beside the log (`<path>.stenolog-restore`) says that a replacement is under way. If the process is
killed, the log is not opened until the replacement is done again: then the remaining files are moved to where
those before them went.
"""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from glob import escape, glob
from pathlib import Path
from typing import Protocol

from stenolog.domain.errors import StoreError, StoreTimeoutError

from . import durable_head, file_locks, file_safety, schema
from .errors import NO_LOCKS, RAISED, to_store_error, without_locks
from .file_locks import FileLock

try:
    import fcntl
except ImportError:  # pragma: no cover - not on POSIX
    fcntl = None  # type: ignore[assignment]


PART = ".stenolog-part"
"""The end of a copy's name until the copy is complete."""


def copy(source: sqlite3.Connection, path: Path) -> None:
    """Copy a database into a new file, whole or not at all; it is durable when this returns."""
    with part(path) as unfinished:
        fill(source, unfinished)
        publish(unfinished, path)


def refuse_existing(path: Path) -> None:
    """Raise `StoreError` where a file is in the way of a copy."""
    if path.exists():
        raise StoreError(f"{path}: exists already; a backup overwrites nothing")


@contextmanager
def part(path: Path) -> Iterator[Path]:
    """Create the unfinished copy of a file beside it, locked; it is removed at the end unless it was moved.

    Unfinished copies in the folder whose process was killed are removed first.
    """
    # The kernel has released the lock of a killed process, so its part can be told from one at work.
    for left in glob(f"{escape(str(path.parent))}/*{PART}"):
        file_locks.remove_lock_file(left, beside=True)
    unfinished = path.with_name(f"{path.name}{PART}")
    if unfinished.is_file():
        raise StoreTimeoutError(f"{unfinished}: another process is writing it")
    try:
        file = file_locks.make_lock_file(str(unfinished))
    except OSError as error:
        raise StoreError(f"{unfinished}: {error.strerror}") from error
    try:
        yield unfinished
    finally:
        with suppress(OSError):
            # The name may belong to another file by now: ours was moved to its place.
            if os.path.samestat(os.fstat(file), os.stat(unfinished)):
                os.unlink(unfinished)
        file_locks.close_lock_file(file, os.getpid())


def fill(source: sqlite3.Connection, path: Path) -> None:
    """Copy a database into an empty file."""
    try:
        with closing(sqlite3.connect(path)) as target:
            # No journal is needed: a half-written copy is thrown away.
            target.execute("PRAGMA journal_mode = OFF")
            source.backup(target)
            # Another id, so that a write-ahead log of the original is not taken for one of the copy.
            schema.renew(target)
    except RAISED as error:
        raise to_store_error(error, str(path)) from error


def publish(unfinished: Path, path: Path) -> None:
    """Give the finished copy its name, durably."""
    try:
        # Before it gets its name: after a power cut the name must not lead to half a file.
        sync(unfinished)
        unfinished.replace(path)
        # A new name is durable only when its folder is. Elsewhere than on POSIX no folder can be opened.
        if hasattr(os, "O_DIRECTORY"):
            sync(path.parent)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error


def sync(path: Path) -> None:
    """Wait until the disk has a file, or the names in a folder."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


RESTORE_MARK = ".stenolog-restore"
# The lock file stays in its place, because the restore itself has it locked.
BESIDE = ("-wal", "-shm", "-journal", "-runner-")
"""Suffixes of a database's companion files, without the lock file and the derived ones."""
DERIVED = ("-checkpoints", "-bookmarks", "-search")
"""Suffixes of files that are derived from the entries of a database: no other one may use them."""
# From SQLite's sources: the shared bytes behind PENDING_BYTE, and the locks in the shared memory.
SQLITE_LOCKS = {"": (0x40000000, 512), "-shm": (120, 9)}
"""The bytes of the database and of its shared memory that every connection of SQLite has locked."""
POLL = 0.01


class OpenDatabase(Protocol):
    """A datastore of this process, as `replace_database` needs it."""

    file: str

    @property
    def closed(self) -> bool:
        """True if the datastore was closed."""


# SQLite's record locks belong to the process, so they do not stop this process itself.
_OPEN: weakref.WeakSet[OpenDatabase] = weakref.WeakSet()


def note_open(datastore: OpenDatabase) -> None:
    """Remember an open datastore of this process for `replace_database`."""
    _OPEN.add(datastore)


@contextmanager
def opening(database: str, deadline: float) -> Iterator[None]:
    """Keep a database from being replaced while this process opens it.

    Raises `StoreTimeoutError`, `StoreError`.
    """
    # SQLite's own locks show that a log is open only later, when it has read a page.
    # A log that is new here has no lock file yet, and one that is refused gets none.
    is_known = os.path.exists(f"{database}-lock")
    with _gate(database, file_locks.SHARED, deadline) if is_known else nullcontext():
        if os.path.exists(f"{database}{RESTORE_MARK}"):
            raise StoreError(
                f"{database}: a restore was interrupted: run `stenolog db restore` again. The files that it "
                f"moved are {database}.before-{_interrupted_stamp(database)}…"
            )
        yield


@contextmanager
def _gate(database: str, kind: int, deadline: float) -> Iterator[None]:
    file_safety.follow_permissions(f"{database}-lock", database)
    try:
        file = file_locks.open_lock_file(f"{database}-lock")
    # Where no lock file can be made, no process can be kept out.
    except OSError:
        yield
        return
    try:
        give_up = time.monotonic() + deadline
        while True:
            try:
                file_locks.lock_byte(file, file_locks.OPENING_BYTE, kind)
                break
            except OSError as error:
                if error.errno in NO_LOCKS:
                    raise without_locks(database, error) from error
                if time.monotonic() > give_up:
                    raise StoreTimeoutError(
                        f"{database}: waited {deadline} s for others to open or restore it"
                    ) from None
                time.sleep(POLL)
        yield
    finally:
        file_locks.close_lock_file(file, os.getpid())


def replace_database(part: Path, path: Path, deadline: float) -> list[Path]:
    """Put a finished copy in the place of a database; return where the files went that were there.

    Raises `StoreTimeoutError` while any process has the database open, and `StoreError`. Nothing was moved
    then.
    """
    database = str(path)
    for store in tuple(_OPEN):
        if not store.closed and _same(store.file, database):
            raise StoreTimeoutError(f"{path}: open in this process: close it first")
    lock = FileLock(f"{database}-lock", database)
    # Three locks, in the order in which an opening takes them: the gate, the writers' turn, SQLite's own.
    with _gate(database, file_locks.EXCLUSIVE, deadline):
        if not lock.acquire(deadline):
            raise StoreTimeoutError(f"{path}: waited {deadline} s for another process that writes to it")
        try:
            with _unused(database):
                return _replace(part, path)
        finally:
            lock.close()


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
        stamp = _interrupted_stamp(str(path)) or _new_stamp(path)
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
    """Return the files of a database, the database last."""
    return _beside(path, BESIDE) + ([path] if path.exists() else [])


def _beside(path: Path, suffixes: Sequence[str]) -> list[Path]:
    return [Path(each) for suffix in suffixes for each in glob(f"{escape(str(path))}{suffix}*")]


def _interrupted_stamp(database: str) -> str:
    """Return the stamp of a replacement that was interrupted; "" where there is none."""
    with suppress(OSError):
        return Path(f"{database}{RESTORE_MARK}").read_text()
    return ""


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


def copy_database(source: Path, part: Path) -> None:
    """Copy a backup, with the write-ahead log of one that was in use."""
    written_ahead = Path(f"{source}-wal")
    # `immutable` makes no file beside the backup, but passes over a write-ahead log.
    is_alone = not written_ahead.exists() or not written_ahead.stat().st_size
    uri = f"{source.as_uri()}?{'immutable=1' if is_alone else 'mode=rw'}"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            fill(connection, part)
    except RAISED as error:
        raise to_store_error(error, str(source)) from error
