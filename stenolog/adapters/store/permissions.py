"""File permissions: a new database is readable by its owner alone, and so is every file beside it.

The owner may open a database to others with `chmod`, at any time. The files beside it follow when they are
opened: each has the permissions of the database.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

PRIVATE = 0o600


def create(path: str, mode: int = PRIVATE) -> None:
    """Create an empty file with these permissions, whatever the umask; leave an existing file alone.

    The file is not opened where the system allows that: closing it would release the locks that SQLite
    holds on it in another thread. Raises OSError.
    """
    target = os.path.realpath(path)  # a link may lead to a file that is not there yet
    try:
        try:
            os.mknod(target, stat.S_IFREG | PRIVATE)
        except (AttributeError, PermissionError):  # not on Linux
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))
    except FileExistsError:
        return
    os.chmod(target, mode)


def follow(path: str, database: str, *, make: bool = True) -> None:
    """Give a file beside a database the permissions of the database; `make` creates it if it is missing.

    Links and other users' files are left alone. A failure is left to whatever opens the file next.
    """
    with suppress(OSError):
        # The owner of a read-only database still writes beside it.
        wanted = stat.S_IMODE(os.stat(database).st_mode) & 0o666 | PRIVATE
        if make:
            create(path, wanted)
        found = os.lstat(path)
        is_ours = stat.S_ISREG(found.st_mode) and found.st_uid == getattr(os, "geteuid", lambda: -1)()
        if is_ours and stat.S_IMODE(found.st_mode) != wanted:
            os.chmod(path, wanted)
