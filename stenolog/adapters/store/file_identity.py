"""Checks on the path of a database, and the identity of the file that stands there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from stenolog.domain.errors import NotADatabaseError, StoreError

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_path(path: Path) -> None:
    """Raise `NotADatabaseError` or `StoreError` where no database can be."""
    if path.exists() and not path.is_file():
        kind = _KINDS.get(stat.S_IFMT(path.stat().st_mode), "something else")
        raise NotADatabaseError(f"{path}: expected a file, found {kind}")
    if not path.parent.is_dir():
        raise StoreError(f"{path}: the directory {path.parent} does not exist")


def file_identity(path: str) -> tuple[int, int]:
    """Return what tells a file from another one of the same name."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


def uri_of(path: Path) -> str:
    """The file as an SQLite URI: one that may not be written is opened to be read."""
    uri = path.as_uri()
    if path.exists() and not os.access(path, os.W_OK):
        return f"{uri}?mode=ro" + ("" if Path(f"{path}-wal").exists() else "&immutable=1")
    return uri
