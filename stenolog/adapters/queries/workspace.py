"""Read-only files under a workspace root, for agents that read nothing but files. POSIX systems alone.

A path is walked folder by folder, each opened in the one before, and a symbolic link is never followed: no
file can come to lie outside the root.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from stenolog.domain.errors import CallerError, StoreError

READ_ONLY = 0o400
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_NO_FOLDER = (errno.ELOOP, errno.ENOTDIR)


def write(root: Path, path: str, content: bytes, earlier: Container[str] = ()) -> bool:
    """Put the content at `path` under the root, all of it or none; False where it stands there already.

    Another content is replaced only if its sha256 is among `earlier`. Raises `CallerError` where it is
    not, or where something else than a folder or a file stands on the way, and `StoreError`.
    """
    if os.open not in os.supports_dir_fd:
        raise StoreError(f"{root}: files are written on POSIX systems alone")
    *folders, name = path.split("/")
    try:
        with _opened(root, folders) as folder:
            there = _read(folder, name)
            if there == content:
                return False
            if there is not None and sha256(there).hexdigest() not in earlier:
                raise FileExistsError
            _write_file(folder, name, content, replace=there is not None)
    except FileExistsError:
        raise CallerError(
            f"{root / path}: expected no file, or one that was made here; what stands there is kept"
        ) from None
    except OSError as error:
        if error.errno in _NO_FOLDER:
            raise CallerError(
                f"{root / path}: expected folders, and at their end a file; found a link, or something else"
            ) from None
        raise StoreError(f"{root / path}: {error.strerror or error}") from None
    return True


@contextmanager
def _opened(root: Path, folders: list[str]) -> Iterator[int]:
    """The last of the folders, each made in the one before where it is missing, as a descriptor."""
    root.mkdir(0o700, parents=True, exist_ok=True)
    here = os.open(root, os.O_RDONLY)
    try:
        for name in folders:
            with suppress(FileExistsError):  # a link is there, too; opening it says so
                os.mkdir(name, 0o700, dir_fd=here)
            inner = os.open(name, _FOLDER, dir_fd=here)
            os.close(here)
            here = inner
        yield here
    finally:
        os.close(here)


def _read(folder: int, name: str) -> bytes | None:
    """Return the bytes of a file; None if there is no such file."""
    try:
        found = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise OSError(errno.ENOTDIR, "not a regular file")
        with open(found, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(found)


def _write_file(folder: int, name: str, content: bytes, *, replace: bool) -> None:
    """A file that takes its name once everything is in it; without `replace` never that of another."""
    part = f".stenolog-{os.urandom(8).hex()}.part"
    made = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, READ_ONLY, dir_fd=folder)
    try:
        with open(made, "wb") as file:
            file.write(content)
            os.fchmod(made, READ_ONLY)
        if replace:
            os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        else:
            os.link(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
