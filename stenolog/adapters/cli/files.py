"""Files that a command writes for a person: whole or not at all, and never in the place of a device."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import click

STDOUT = Path("-")
"""The path that stands for stdout."""
FILE = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
"""A file to be written, or `-`."""
FILES = click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
"""Files to be read, or folders of them."""


def there(path: Path) -> Path:
    """A path that was given. Raises FileNotFoundError where nothing is at it."""
    os.stat(path)
    return path


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@contextmanager
def whole_or_not_at_all(path: Path) -> Iterator[TextIO]:
    """A stream into a file that takes its name once everything is in it.

    A link stays, and what it leads to is written. What is there and is no regular file, a pipe or a device,
    is written straight into. A new file is readable by its owner alone; an existing one keeps its
    permissions. An `OSError` names the path that was given.
    """
    straight = path.exists() and not path.is_file()
    target = path if straight else path.resolve()
    part = target if straight else target.with_name(f"{target.name}.part")
    try:
        if not straight:
            part.unlink(missing_ok=True)  # a killed command's
        with open(part, "w" if straight else "x", encoding="utf-8", newline="\n", opener=_private) as stream:
            yield stream
        if not straight:
            if target.exists():
                part.chmod(stat.S_IMODE(target.stat().st_mode))
            part.replace(target)
    except OSError as error:
        if error.filename in (None, str(part)):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        if not straight:
            part.unlink(missing_ok=True)
