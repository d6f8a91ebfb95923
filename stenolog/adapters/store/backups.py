"""Backups: a database copied as it stands at one moment, into a new file that only its owner can read."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from glob import escape, glob
from pathlib import Path

from stenolog.domain.errors import StoreError, StoreTimeoutError

from . import lockfile, schema
from .errors import RAISED, to_store_error

PART = ".stenolog-part"
"""The end of a copy's name until the copy is complete."""


def copy(source: sqlite3.Connection, path: Path) -> None:
    """Copy a database into a new file, whole or not at all; it is durable when this returns."""
    with part(path) as unfinished:
        fill(source, unfinished)
        publish(unfinished, path)


@contextmanager
def part(path: Path) -> Iterator[Path]:
    """Create the unfinished copy of a file beside it, locked; it is removed at the end unless it was moved.

    Unfinished copies in the folder whose process was killed are removed first.
    """
    for left in glob(f"{escape(str(path.parent))}/*{PART}"):
        lockfile.remove(left, beside=True)
    unfinished = path.with_name(f"{path.name}{PART}")
    if unfinished.is_file():
        raise StoreTimeoutError(f"{unfinished}: another process is writing it")
    try:
        file = lockfile.make(str(unfinished))
    except OSError as error:
        raise StoreError(f"{unfinished}: {error.strerror}") from error
    try:
        yield unfinished
    finally:
        with suppress(OSError):
            if os.path.samestat(os.fstat(file), os.stat(unfinished)):
                os.unlink(unfinished)
        lockfile.close(file, os.getpid())


def fill(source: sqlite3.Connection, path: Path) -> None:
    """Copy a database into an empty file."""
    try:
        with closing(sqlite3.connect(path)) as target:
            target.execute("PRAGMA journal_mode = OFF")  # a half-written copy is thrown away
            source.backup(target)
            schema.renew(target)  # a write-ahead log of the original is not one of the copy
    except RAISED as error:
        raise to_store_error(error, str(path)) from error


def publish(unfinished: Path, path: Path) -> None:
    """Give the finished copy its name, durably."""
    try:
        sync(unfinished)
        unfinished.replace(path)
        if hasattr(os, "O_DIRECTORY"):  # elsewhere a folder cannot be opened
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
