"""Folders watched for transcripts: files that are new or have changed are imported, round by round.

Files are polled. The import itself appends only what a log does not have, so a round may come late, or see a
file while it is written: what is cut off is read in the next round.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from .detection.folders import files_in
from .intake.report import Refused, Report

Stamp: TypeAlias = tuple[tuple[str, int, int], ...]
Importing: TypeAlias = Callable[[Sequence[Path]], Iterable[Report | Refused]]


def rounds(
    paths: Sequence[Path], importing: Importing, wait: Callable[[], object]
) -> Iterator[list[Report | Refused]]:
    """Yield what became of the files of each round, without rounds in which no file has changed.

    `importing` imports files; `wait` returns when it is time for the next round. It never ends by itself.
    """
    seen: dict[Path, Stamp] = {}
    while True:
        now = {file: stamp for path in paths for file in files_in(path) if (stamp := _stamp(file))}
        changed = [file for file, stamp in now.items() if seen.get(file) != stamp]
        if changed:
            yield [each for each in importing(changed) if not _has_gone(each)]
        seen = now
        wait()


def _stamp(path: Path) -> Stamp:
    """Return what tells a changed file, or a folder that counts as one; empty where nothing is there."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return tuple(stamp for file in files if (stamp := _stat(file)))


def _stat(file: Path) -> tuple[str, int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return str(file), found.st_mtime_ns, found.st_size


def _has_gone(each: Report | Refused) -> bool:
    """Return whether a file was deleted before it could be read."""
    return isinstance(each, Refused) and isinstance(each.error, FileNotFoundError)
