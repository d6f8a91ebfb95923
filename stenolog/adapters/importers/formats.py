"""Formats of other programs that can be imported, as registered values.

NOTES = Importer("my-notes", "a notebook of mine", read, is_document=lambda value: "notes" in as_dict(value))
IMPORTERS.add(NOTES.name, NOTES)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeAlias

from stenolog.adapters.plugins import LazyRegistry

if TYPE_CHECKING:  # every `stenolog.open` imports this module
    from .converter import Converter, Reader, SourceConversation
    from .json_lines import Json, JsonLinesReader, JsonObject
    from .steps import ExistingLog

Check: TypeAlias = "Callable[[Json], bool]"
MAPPING_SUFFIXES = (".mapping.toml", ".mapping.json")
"""The suffixes of a mapping that stands beside a transcript, in the place of the transcript's own suffix."""


def _never(value: Json) -> bool:
    return False


class FolderFormat(NamedTuple):
    """A format that keeps its conversations in a folder of its own.

    `find` returns the folder that a path stands for, or None, and raises `UnknownFormatError` for a folder
    that is none; `holds` says whether a folder is one, `read` reads it, and `files` lists what is read.
    """

    find: Callable[[Path], Path | None]
    holds: Callable[[Path], bool]
    read: Callable[[Path, JsonLinesReader], Iterator[SourceConversation]]
    files: Callable[[Path], Iterable[Path]]


class LineFormat(NamedTuple):
    """JSON Lines that are converted one by one, so that a file of any size takes little memory.

    `make` begins the converter of a conversation. `name_of` returns the name of the conversation that a
    record belongs to, empty where it tells none; its second argument is whether a conversation has begun.
    `beside` returns records that other files beside a file have on it; they come first.
    """

    make: Callable[[ExistingLog], Converter]
    name_of: Callable[[JsonObject, bool], str]
    beside: Callable[[Path], Iterable[JsonObject]] = lambda path: ()


@dataclass(frozen=True)
class Importer:
    """A format of transcripts: how its files are recognised, by their content alone, and read.

    `title` names a file of it in messages ("a Codex rollout"). `read` returns the conversations of a file;
    where `lines` is given too, `read` is for a file that is one JSON list. A file is of this format if
    `is_document` accepts the one JSON value that it holds, `is_record` one of its first values on lines, or
    `is_start` its first bytes (it is given these and the whole stream).

    `name_of` returns the conversation's name where the file tells none. `takes_agents`: names of agents can
    be given by the caller. Of several importers that accept a file the one of the highest `precedence` takes
    it. `version` is raised when more of a file is taken in than was before. `with_mapping` returns an
    importer of the files that a mapping describes, given its path, and raises `CallerError` for a bad one.
    `team` returns the file of a team that a file describes, which then holds no conversation.
    """

    name: str
    title: str
    read: Reader | None = None
    lines: LineFormat | None = None
    is_document: Check = _never
    is_record: Check = _never
    is_start: Callable[[bytes, BinaryIO], bool] = lambda first, stream: False
    name_of: Callable[[Path], str] = lambda path: path.stem
    folder: FolderFormat | None = None
    takes_agents: bool = False
    precedence: int = 0
    version: int = 1
    with_mapping: Callable[[Path], Importer] | None = None
    team: Callable[[BinaryIO], str] | None = None


def _shipped(name: str) -> str:
    return f"{__package__}.shipped:{name}"


def mappings_beside(path: Path) -> Iterator[Path]:
    """Yield the mappings that stand beside a transcript: `talk.mapping.toml` beside `talk.jsonl`."""
    found = (path.with_name(f"{path.stem}{suffix}") for suffix in MAPPING_SUFFIXES)
    return (each for each in found if each.is_file())


IMPORTERS: LazyRegistry[Importer] = LazyRegistry("a format to import")
"""Every importer by its name. A file is shown to those of plugins first, in the order of their names here."""
for _name in (
    "claude-code",
    "claude-code-note",
    "claude-stream",
    "codex",
    "gemini-cli",
    "gemini-cli-json",
    "openai-chat",
    "qwen-code",
    "stenolog",
    "stenolog-db",
):
    IMPORTERS.add_reference(_name, _shipped(_name.replace("-", "_").upper()))
