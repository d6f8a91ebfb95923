"""Transcripts in a folder, formats that are folders, and notes beside sub-agents' files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from glob import glob
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from stenolog.adapters.importers.door.files import regular_file
from stenolog.adapters.importers.door.json_lines import (
    LONGEST_DOCUMENT,
    Json,
    JsonLinesReader,
    JsonObject,
)
from stenolog.adapters.importers.formats import IMPORTERS, MAPPING_SUFFIXES, FolderFormat, Importer
from stenolog.domain.errors import StenologError, UnknownFormatError
from stenolog.projections.messages.json_fields import as_dict, as_int
from stenolog.projections.programs import PROGRAMS, SubAgentFiles, home_of

from .detect import recognise

SUFFIXES = frozenset({".jsonl", ".ndjson", ".json", ".csv", ".traj", ".zst", ".zstd"})
"""The suffixes, in small letters, of the files that are looked for in a folder."""
DATABASES = frozenset({".db", ".sqlite", ".sqlite3"})
"""The suffixes of files that are imported from a folder if they hold a program's sessions."""
_SETTINGS = frozenset({"settings.json", "projects.json", "state.json", "installation_id"})
"""Files that programs keep beside their sessions."""


def files_in(path: Path, *, passed_over: Callable[[Path], object] = lambda _: None) -> Iterator[Path]:
    """Yield the files to import at a path: itself, those in and below the folder, or those of a pattern.

    A format's folder of conversations counts as one file. Hidden files and folders are skipped, unless a
    format names their suffix, as are programs' settings. No folder is entered twice, whatever links lead to
    it; one that cannot be entered is yielded, to be refused. A folder's files come before those below it, by
    name; sub-agents' files of Claude Code after their sessions', and by depth. For a note on a sub-agent its
    file is yielded. `passed_over` is called with files skipped for their suffix.
    """
    if path.is_dir():
        yield from _inside(path, set(), passed_over)
    elif found := [each for each in matches(path) if each != path]:
        for each in found:
            yield from files_in(each, passed_over=passed_over)
    else:
        yield noted_file(path) or path


def matches(path: Path) -> list[Path]:
    """Return the path if something is there, else what it matches as a pattern such as `*/*.jsonl`."""
    return [path] if os.path.lexists(path) else sorted(map(Path, glob(str(path), recursive=True)))


class FoundSessions(NamedTuple):
    """A folder of a program's sessions on this machine; their number is 0 if only its importer knows it."""

    program: str
    folder: Path
    sessions: int


def found_sessions(environ: Mapping[str, str] = os.environ) -> Iterator[FoundSessions]:
    """Yield the folders of all known programs that have sessions here."""
    for program in PROGRAMS.values():
        for each in program.folders:
            with suppress(OSError, RuntimeError):  # the latter of a home that nobody has
                folder = Path(home_of(each, environ)).expanduser() / each.place
                files = [*files_in(folder)] if folder.exists() else []
                if files:
                    are_single = all(file.is_file() and file.suffix not in DATABASES for file in files)
                    number = sum(depth_of(file) is None for file in files)
                    yield FoundSessions(program.name, folder, number if are_single else 0)


def folder_of(path: Path) -> tuple[Path, Importer | None]:
    """Return the folder that a path belongs to, and its importer; None if no importer has it.

    Raises `UnknownFormatError` for a folder without a conversation.
    """
    refused: UnknownFormatError | None = None
    formats = [*_folder_formats(path)]
    if not formats and path.is_dir():
        formats = [*_folder_formats()]
    for importer, format in formats:
        try:
            if (found := format.find(path)) is not None:
                return found, importer
        except UnknownFormatError as error:
            refused = refused or error
    if refused is not None:
        raise refused
    return path, None


def _folder_formats(path: Path | None = None) -> Iterator[tuple[Importer, FolderFormat]]:
    """Yield importers of folder formats whose signature a path shows, or without any."""
    is_folder = path is not None and path.is_dir()
    for name, _, signatures in IMPORTERS.in_order("folder"):
        for each in signatures or ():
            if path is None or (_has(path, each.folder) if is_folder else path.name in each.folder):
                break
        else:
            if signatures is not None:
                continue
        if (importer := IMPORTERS[name]).folder is not None:
            yield importer, importer.folder


def _has(folder: Path, patterns: Iterable[str]) -> bool:
    """Return whether a folder has such a file.

    Names are looked up directly: a folder that cannot be entered raises, and is refused when read.
    """
    return any(
        any(islice(folder.glob(each), 1)) if "*" in each else (folder / each).is_file() for each in patterns
    )


def _inside(
    folder: Path, entered: set[tuple[int, int]], passed_over: Callable[[Path], object]
) -> Iterator[Path]:
    status = folder.stat()
    if (status.st_dev, status.st_ino) in entered:
        return
    entered.add((status.st_dev, status.st_ino))
    try:
        with os.scandir(folder) as found:
            seen = sorted((each for each in found if _is_seen(each)), key=_sort_key)
        is_one = any(each.holds(folder) for _, each in _folder_formats(folder))
    except OSError:
        is_one = True  # it is refused where it is read; its neighbours are read
    if is_one:
        yield folder
        return
    for file in (Path(each) for each in seen if each.is_file()):
        notes = (*note_suffixes(), *MAPPING_SUFFIXES, *IMPORTERS.beside())
        is_wanted = file.suffix.lower() in SUFFIXES and file.name not in _SETTINGS
        if (is_wanted or _is_session(file)) and not file.name.endswith(notes):
            yield file
        elif noted_file(file) is None:
            passed_over(file)
    for each in seen:
        if each.is_dir():
            yield from _inside(Path(each), entered, passed_over)


def _is_session(file: Path) -> bool:
    """Return whether a database, or a file named like settings or by a format, holds conversations.

    A log does not.
    """
    is_asked = file.suffix.lower() in DATABASES or file.name in _SETTINGS
    if not is_asked and not _is_named(file.name):
        return False
    with suppress(StenologError, OSError):
        return recognise(file) != "stenolog-db"
    return False


def _is_named(name: str) -> bool:
    return name.lower().endswith(IMPORTERS.suffixes())


def _is_seen(each: os.DirEntry[str]) -> bool:
    return each.name[0] != "." or (_is_named(each.name) and each.is_file())


def _sort_key(each: os.DirEntry[str]) -> tuple[bool, int, str]:
    depth = depth_of(Path(each))
    return depth is not None, depth or 0, each.name


def size_of(path: Path) -> int:
    """Return the bytes to read of a file or a format's folder; 0 if unknown."""
    files: Iterable[Path] = [path]
    if path.is_dir():
        files = chain.from_iterable(each.files(path) for _, each in _folder_formats(path))
    with suppress(OSError):
        return sum(found.stat().st_size for found in files)
    return 0


_LARGEST = 64 * 1024
"""A note has a few hundred bytes; what is larger is something else."""


def note_suffixes() -> tuple[str, ...]:
    """Return the suffixes of all programs' notes."""
    return tuple(each.suffix for each in _kinds())


def noted_file(path: Path) -> Path | None:
    """Return the sub-agent's file that a note is on; None for other paths or without a file."""
    for each in _kinds():
        file = path.with_name(f"{path.name.removesuffix(each.suffix)}.jsonl")
        if path.name.endswith(each.suffix) and file.is_file():
            return file
    return None


def depth_of(path: Path) -> int | None:
    """Return a sub-agent file's number of agents above; None for other files."""
    for each in _kinds():
        if path.name.startswith(each.prefix) and not path.name.endswith(each.suffix):
            return as_int(read_note(path, each).get(each.depth))
    return None


def read_note(path: Path, files: SubAgentFiles) -> JsonObject:
    """Return the note on a sub-agent's file; empty if unreadable."""
    return as_dict(json_at(path.with_name(f"{path.stem}{files.suffix}"), _LARGEST))


def json_at(path: Path, largest: int = LONGEST_DOCUMENT) -> Json:
    """Return the JSON value of a file, such as one beside a session; None if unreadable."""
    with suppress(OSError, ValueError, RecursionError, StenologError), regular_file(path) as stream:
        return JsonLinesReader().document(BytesIO(stream.read(largest)))
    return None


def _kinds() -> list[SubAgentFiles]:
    return [each.sub_agents for each in PROGRAMS.values() if each.sub_agents]
