"""The transcripts in a folder, wherever in it they lie."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

from stenolog.domain.errors import UnknownFormatError

from .formats import IMPORTERS, FolderFormat, Importer

SUFFIXES = frozenset({".jsonl", ".ndjson", ".json", ".csv"})
"""The suffixes, in small letters, of the files that are looked for in a folder."""
ABOUT = ".meta.json"
"""The suffix of the files in which Claude Code notes data on a sub-agent."""
SUB_AGENT = "agent-"
"""The prefix of the files that hold one sub-agent of a session of Claude Code."""


def files_in(path: Path, *, passed_over: Callable[[Path], object] = lambda _: None) -> Iterator[Path]:
    """Yield the files to import at a path: the file itself, or those in and below the folder.

    A folder of conversations in a format of its own counts as one file. Hidden files and folders are
    skipped, and no folder is entered twice, whatever links lead to it; a folder that cannot be entered is
    yielded itself, to be refused. A folder's own files come before those below it, by their names,
    sub-agents' files of Claude Code after their sessions'. `passed_over` is called with each file that is
    skipped for its suffix.
    """
    if path.is_dir():
        yield from _inside(path, set(), passed_over)
    else:
        yield path


def folder_of(path: Path) -> tuple[Path, Importer | None]:
    """Return the folder that a path stands for, and the importer whose it is; None where it is nobody's.

    Raises `UnknownFormatError` for a folder in which no importer finds a conversation.
    """
    refused: UnknownFormatError | None = None
    for importer, format in _folder_formats():
        try:
            if (found := format.find(path)) is not None:
                return found, importer
        except UnknownFormatError as error:
            refused = refused or error
    if refused is not None:
        raise refused
    return path, None


def _folder_formats() -> Iterator[tuple[Importer, FolderFormat]]:
    """Yield the importers whose format is a folder."""
    for name in IMPORTERS:
        if (importer := IMPORTERS[name]).folder is not None:
            yield importer, importer.folder


def _inside(
    folder: Path, entered: set[tuple[int, int]], passed_over: Callable[[Path], object]
) -> Iterator[Path]:
    there = folder.stat()
    if (there.st_dev, there.st_ino) in entered:
        return
    entered.add((there.st_dev, there.st_ino))
    if any(each.holds(folder) for _, each in _folder_formats()):
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
    """Return the bytes to read of a file, or of a format's folder; 0 if that is unknown."""
    files: Iterable[Path] = [path]
    if path.is_dir():
        files = chain.from_iterable(each.files(path) for _, each in _folder_formats())
    with suppress(OSError):
        return sum(found.stat().st_size for found in files)
    return 0
