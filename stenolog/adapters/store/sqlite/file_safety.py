"""Safety of a log's files: permissions, identity, and seals on files beside it.

The owner may `chmod` a database at any time. Files beside it get its permissions when they are opened. Their
seals use a key in the log.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from stenolog.domain.errors import NotADatabaseError, StoreError

PRIVATE = 0o600


def create_private(path: str, mode: int = PRIVATE) -> None:
    """Create an empty file with exactly these permissions; ignore an existing one.

    Raises OSError.
    """
    # A link may lead to a file that is not there yet.
    target = os.path.realpath(path)
    try:
        try:
            # Not opened: closing it would release the record locks that SQLite holds on it in another
            # thread.
            os.mknod(target, stat.S_IFREG | PRIVATE)
        # Elsewhere than on Linux only root may call `mknod`.
        except (AttributeError, PermissionError):
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))
    except FileExistsError:
        return
    # `mknod` and `open` are cut by the umask.
    os.chmod(target, mode)


def follow_permissions(path: str, database: str, *, make: bool = True) -> None:
    """Give a file beside a database its permissions; `make` creates a missing one.

    Links and other users' files are ignored. Whatever opens the file next reports failures.
    """
    with suppress(OSError):
        # The owner of a read-only database still writes beside it.
        wanted = stat.S_IMODE(os.stat(database).st_mode) & 0o666 | PRIVATE
        if make:
            create_private(path, wanted)
        # Not `stat`: a link that another user put there must not give his file our permissions.
        found = os.lstat(path)
        is_ours = stat.S_ISREG(found.st_mode) and found.st_uid == getattr(os, "geteuid", lambda: -1)()
        if is_ours and stat.S_IMODE(found.st_mode) != wanted:
            os.chmod(path, wanted)


_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_path(path: Path) -> None:
    """Raise `NotADatabaseError` or `StoreError` if no database can be there."""
    if path.exists() and not path.is_file():
        kind = _KINDS.get(stat.S_IFMT(path.stat().st_mode), "something else")
        raise NotADatabaseError(f"{path}: expected a file, found {kind}")
    if not path.parent.is_dir():
        raise StoreError(f"{path}: the directory {path.parent} does not exist")


def uri_of(path: Path) -> str:
    """Return the file's SQLite URI, read-only if it may not be written."""
    uri = path.as_uri()
    # Without a -wal file SQLite would have to make one in order to read; `immutable` needs none.
    if path.exists() and not os.access(path, os.W_OK):
        return f"{uri}?mode=ro" + ("" if Path(f"{path}-wal").exists() else "&immutable=1")
    return uri


SEAL_KEY = "SELECT bytes FROM secret WHERE name = 'sidecars'"
KEY_BYTES = 32


def seal_key(connection: sqlite3.Connection) -> bytes:
    """Return a log's key; if it has none, an unused one."""
    row = connection.execute(SEAL_KEY).fetchone()
    found = row[0] if row else None
    # A random key fits no seal, so a damaged key costs the files beside the log and nothing else.
    return found if isinstance(found, bytes) and len(found) == KEY_BYTES else os.urandom(KEY_BYTES)


# A user who can write the files beside the log, but cannot read the log, can seal nothing there.
class Seals:
    """Computes seals with one key."""

    def __init__(self, key: bytes = b"") -> None:
        self._key = key

    def renew(self, key: bytes) -> None:
        """Use another key: data sealed with the old one becomes invalid."""
        self._key = key

    def seal(self, *parts: bytes) -> bytes:
        """Return the seal of some parts, in this order: 32 bytes."""
        sealed = blake2b(key=self._key, digest_size=32)
        for part in parts:
            # With its length before it, a part cannot give bytes to its neighbour and keep the seal.
            sealed.update(len(part).to_bytes(8, "big") + part)
        return sealed.digest()
