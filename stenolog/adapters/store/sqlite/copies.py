"""Copies of a database at one moment: whole or not at all."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from glob import escape, glob
from pathlib import Path

from stenolog.domain.errors import StoreError, StoreTimeoutError

from . import file_locks
from .errors import RAISED, to_store_error
from .file_locks import PART
from .statements import schema


def copy(source: sqlite3.Connection, path: Path) -> None:
    """Copy a database into a new file, whole or not at all; durable on return."""
    with part(path) as unfinished:
        fill(source, unfinished)
        publish(unfinished, path)


def refuse_existing(path: Path) -> None:
    """Raise `StoreError` if a file already exists."""
    if path.exists():
        raise StoreError(f"{path}: exists already; a backup overwrites nothing")


@contextmanager
def part(path: Path) -> Iterator[Path]:
    """Create an unfinished copy beside a file, locked; removed at the end unless moved.

    First removes unfinished copies of killed processes in the folder.
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
    """Give the finished copy its name, durably. Raises `StoreError`."""
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
    """Wait until a file, or a folder's names, are on disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def copy_database(source: Path, part: Path) -> None:
    """Copy a backup, with its write-ahead log if it was in use."""
    written_ahead = Path(f"{source}-wal")
    # `immutable` makes no file beside the backup, but passes over a write-ahead log.
    is_alone = not written_ahead.exists() or not written_ahead.stat().st_size
    uri = f"{source.as_uri()}?{'immutable=1' if is_alone else 'mode=rw'}"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            fill(connection, part)
    except RAISED as error:
        raise to_store_error(error, str(source)) from error
