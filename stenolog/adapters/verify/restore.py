"""Restoring a log from a backup."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from glob import escape, glob
from pathlib import Path
from typing import NamedTuple

from stenolog.adapters.log import open as open_log
from stenolog.adapters.store import backups, replacement
from stenolog.adapters.store.database import DEADLINE
from stenolog.adapters.store.errors import RAISED, to_store_error
from stenolog.domain.errors import CallerError, CorruptLogError, NotADatabaseError, StoreError

from .integrity import verify


class Restored(NamedTuple):
    """A log that was restored: its conversations, their entries, and where the files went that were there."""

    path: str
    conversations: int
    entries: int
    moved: tuple[str, ...]


def restore(
    backup: str | os.PathLike[str], path: str | os.PathLike[str], *, deadline: float = DEADLINE
) -> Restored:
    """Put a backup in the place of the log at `path`, once it is verified; the backup stays as it is.

    The files of the log that is there are moved aside and never deleted: `<path>.before-<time>`, which can
    be opened as a log. Where there is no log, the backup becomes one.

    Raises `StoreTimeoutError` while any process has the log open, `CorruptLogError` and `NotADatabaseError`
    for a backup that is damaged or none, `UnsupportedVersionError`, `StoreError`. The log is as it was then.
    """
    source, target = Path(backup).absolute(), Path(path).absolute()
    if not source.is_file():
        raise NotADatabaseError(
            f"{backup}: expected a backup, found {'something else' if source.exists() else 'no file'}"
        )
    if target.is_symlink() or (target.exists() and not target.is_file()):
        raise NotADatabaseError(f"{path}: expected a log to replace, found a link or something else")
    if target.exists() and os.path.samefile(source, target):
        raise CallerError(f"{path}: the backup itself cannot be replaced by the backup")
    if not target.parent.is_dir():
        raise StoreError(f"{path}: the directory {target.parent} does not exist")
    with backups.part(target) as part:
        _copy(source, part)
        conversations, entries = _verified(part, source)
        moved = replacement.replace(part, target, deadline)
    return Restored(str(target), conversations, entries, tuple(map(str, moved)))


def _copy(source: Path, part: Path) -> None:
    """Copy the backup, with the write-ahead log of one that was in use."""
    written_ahead = Path(f"{source}-wal")
    is_alone = not written_ahead.exists() or not written_ahead.stat().st_size
    uri = f"{source.as_uri()}?{'immutable=1' if is_alone else 'mode=rw'}"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            backups.fill(connection, part)
    except RAISED as error:
        raise to_store_error(error, str(source)) from error


def _verified(part: Path, source: Path) -> tuple[int, int]:
    """Return how many conversations and entries the copy has. Raises `CorruptLogError`."""
    try:
        with open_log(part) as log:
            report = verify(log, jobs=None)
    finally:
        for beside in glob(f"{escape(str(part))}-*"):
            os.unlink(beside)
    if not report.ok:
        first = report.problems[0]
        where = f"{first.conversation!r} at position {first.position}: " if first.conversation else ""
        raise CorruptLogError(
            f"{source}: not restored, because it is damaged: {where}{first.code}: expected {first.expected}, "
            f"found {first.found}"
        )
    return len(report.conversations), sum(checked.entries for checked in report.conversations)
