"""Folders watched for transcripts: new and changed files are imported, round by round.

Files are polled. An import appends only what is new, so a round may be late or see a file in progress: the
next one reads the rest.
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
    """Yield the outcomes of each round in which a file changed.

    `importing` imports files; `wait` returns when the next round is due. Never ends.
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
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return tuple(stamp for file in files if (stamp := _stat(file)))


def _stat(file: Path) -> tuple[str, int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return str(file), found.st_mtime_ns, found.st_size


def _has_gone(each: Report | Refused) -> bool:
    return isinstance(each, Refused) and isinstance(each.error, FileNotFoundError)
