"""The transcripts in a folder, wherever in it they lie."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from .crewagent import folder as crewagent

SUFFIXES = frozenset({".jsonl", ".ndjson", ".json", ".csv"})
"""The suffixes, in small letters, of the files that are looked for in a folder."""
ABOUT = ".meta.json"
"""The suffix of the files in which Claude Code notes data on a sub-agent."""
SUB_AGENT = "agent-"
"""The prefix of the files that hold one sub-agent of a session of Claude Code."""


def files_in(path: Path, *, passed_over: Callable[[Path], object] = lambda _: None) -> Iterator[Path]:
    """Yield the files to import at a path: the file itself, or those in and below the folder.

    A folder of CrewAgent's conversations counts as one file. Hidden files and folders are skipped, and no
    folder is entered twice, whatever links lead to it; a folder that cannot be entered is yielded itself,
    to be refused. A folder's own files come before those below it, by their names, sub-agents' files of
    Claude Code after their sessions'. `passed_over` is called with each file that is skipped for its
    suffix.
    """
    if path.is_dir():
        yield from _inside(path, set(), passed_over)
    else:
        yield path


def _inside(
    folder: Path, entered: set[tuple[int, int]], passed_over: Callable[[Path], object]
) -> Iterator[Path]:
    there = folder.stat()
    if (there.st_dev, there.st_ino) in entered:
        return
    entered.add((there.st_dev, there.st_ino))
    if crewagent.is_one(folder):
        yield folder
        return
    try:
        with os.scandir(folder) as found:
            seen = sorted(
                (each for each in found if each.name[0] != "."),
                key=lambda each: (each.name.startswith(SUB_AGENT), each.name),
            )
    except OSError:
        yield folder
        return
    for file in (Path(each) for each in seen if each.is_file()):
        if file.suffix.lower() in SUFFIXES and not file.name.endswith(ABOUT):
            yield file
        else:
            passed_over(file)
    for each in seen:
        if each.is_dir():
            yield from _inside(Path(each), entered, passed_over)


def _sort_key(each: os.DirEntry[str]) -> tuple[bool, str]:
    return each.name.startswith(SUB_AGENT), each.name


def size_of(path: Path) -> int:
    """Return the bytes to read of a file, or of a folder of CrewAgent's; 0 if that is unknown."""
    below = (f"*/{crewagent.MESSAGES}", f"{crewagent.CONVERSATIONS}/*/{crewagent.MESSAGES}")
    files = [found for each in below for found in path.glob(each)] if path.is_dir() else [path]
    with suppress(OSError):
        return sum(found.stat().st_size for found in files)
    return 0
