"""Formats of other programs that can be imported, as registered values.

NOTES = Importer("my-notes", "a notebook of mine", read, is_document=lambda value: "notes" in as_dict(value))
IMPORTERS.add(NOTES.name, NOTES)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple, TypeAlias

from stenolog.adapters.plugins import ProgramRegistry
from stenolog.domain.base.registry import Reference
from stenolog.projections.programs import FileFormat, Program, Signature

if TYPE_CHECKING:  # `import stenolog` imports this module
    from stenolog.adapters.importers.conversion.converter import Converter, Reader, SourceConversation
    from stenolog.adapters.importers.conversion.steps import ExistingLog
    from stenolog.adapters.importers.door.json_lines import Json, JsonLinesReader, JsonObject, Record

Check: TypeAlias = "Callable[[Json], bool]"
MAPPING_SUFFIXES = (".mapping.toml", ".mapping.json")
"""The suffixes of a mapping beside a transcript, in the place of the transcript's own suffix."""


def _never(value: Json) -> bool:
    return False


class FolderFormat(NamedTuple):
    """A format that keeps its conversations in a folder of its own.

    `find` returns a path's folder, or None, and raises `UnknownFormatError` for an invalid one; `holds`
    returns whether a folder is one, `read` reads it, and `files` lists what is read.
    """

    find: Callable[[Path], Path | None]
    holds: Callable[[Path], bool]
    read: Callable[[Path, JsonLinesReader], Iterator[SourceConversation]]
    files: Callable[[Path], Iterable[Path]]


class LineFormat(NamedTuple):
    """JSON Lines converted one by one, so that files of any size take little memory.

    `make` creates a conversation's converter. `name_of` returns a record's conversation, empty if not named;
    its second argument is whether a conversation has begun. `beside` returns a file's records from other
    files; they come first.
    """

    make: Callable[[ExistingLog], Converter]
    name_of: Callable[[JsonObject, bool], str]
    beside: Callable[[Path], Iterable[JsonObject]] = lambda path: ()


@dataclass(frozen=True)
class Importer:
    """A format of transcripts: how its files are recognised, by content only, and read.

    `title` names a file in messages ("a Slack channel"). `read` returns a file's conversations; with `lines`,
    it is only for a file that is one JSON list. `write` takes a `WholeFile`, and appends to its log itself.

    A file is of this format if `is_document` accepts its single JSON value, `is_record` one of the first
    values on lines, or `is_start` its first bytes (given these and the stream). If no format accepts any,
    `is_likely` is asked with all objects among the first values. After a match, `other` may still return the
    name of another format without importer.

    `name_of` returns the conversation's name if the file has none. `takes_agents`: the caller may give
    agents' names. Of several matches the highest `precedence` wins. `version` rises when more of a file is
    read than before. `with_mapping` returns an importer for a mapping's path, and raises `CallerError`.
    `team` returns the team file that a file without conversations describes.
    """

    name: str
    title: str = ""
    read: Reader | None = None
    lines: LineFormat | None = None
    write: Callable[[Any], None] | None = None
    is_document: Check = _never
    is_record: Check = _never
    is_start: Callable[[bytes, BinaryIO], bool] = lambda first, stream: False
    is_likely: Callable[[list[JsonObject]], bool] = _never
    other: Callable[[Iterator[Record]], str] = lambda records: ""
    name_of: Callable[[Path], str] = lambda path: path.stem
    folder: FolderFormat | None = None
    takes_agents: bool = False
    precedence: int = 0
    version: int = 1
    with_mapping: Callable[[Path], Importer] | None = None
    team: Callable[[BinaryIO], str] | None = None


def mappings_beside(path: Path) -> Iterator[Path]:
    """Yield the mappings beside a transcript: `talk.mapping.toml` beside `talk.jsonl`."""
    found = (path.with_name(f"{path.stem}{suffix}") for suffix in MAPPING_SUFFIXES)
    return (each for each in found if each.is_file())


class ImporterRegistry(ProgramRegistry[Importer]):
    """Importers by name, those of `PROGRAMS` and added ones.

    What recognises a file is known before its importer is imported.
    """

    def __init__(self) -> None:
        self._formats: dict[str, FileFormat] = {}
        self._asked: tuple[tuple[str, ...], dict[str, list[Asked]]] = ((), {})
        super().__init__("a format to import")

    def _take(self, program: Program) -> None:
        for format in program.sessions:
            self._take_late(format.name, Reference(*format.importer.split(":")))
            self._formats[format.name] = format

    def __getitem__(self, name: str) -> Importer:
        importer = super().__getitem__(name)
        format = self._formats.get(name)
        if format is not None and not importer.title:
            importer = replace(importer, title=format.title, precedence=format.precedence)
            self._values[name] = importer
        return importer

    def title(self, name: str) -> str:
        return self._formats[name].title if name in self._formats else self[name].title

    def signatures(self, name: str) -> tuple[Signature, ...] | None:
        """Return a format's signatures; None if only its importer can tell."""
        return self._formats[name].signatures if name in self._formats else None

    def suffixes(self) -> tuple[str, ...]:
        return tuple(suffix.lower() for format in self._listed_formats() for suffix in format.suffixes)

    def beside(self) -> tuple[str, ...]:
        """Return the ends of the names of files beside sessions."""
        return tuple(suffix for format in self._listed_formats() for suffix in format.beside)

    def _listed_formats(self) -> Iterator[FileFormat]:
        return (self._formats[name] for name in self if name in self._formats)

    def in_order(self, about: Literal["start", "value", "folder"]) -> list[Asked]:
        """Return the importers to ask about a file's start, values or folder, in order."""
        names = tuple(self._values)
        if names != self._asked[0]:
            self._asked = names, self._sorted(names)
        return self._asked[1][about]

    def _sorted(self, names: Iterable[str]) -> dict[str, list[Asked]]:
        found: dict[str, list[Asked]] = {"start": [], "value": [], "folder": []}
        for name in names:
            format = self._formats.get(name)
            precedence = self[name].precedence if format is None else format.precedence
            for about, asked in found.items():
                signatures = None if format is None else [s for s in format.signatures if _about(s) == about]
                if signatures is None or signatures:
                    asked.append(Asked(name, precedence, signatures))
        for asked in found.values():
            asked.sort(key=lambda each: -each.precedence)
        return found


class Asked(NamedTuple):
    """An importer to ask about a file with one of its signatures; about any file without."""

    name: str
    precedence: int
    signatures: list[Signature] | None


def _about(signature: Signature) -> str:
    return "start" if signature.is_of_start else "folder" if signature.folder else "value"


IMPORTERS = ImporterRegistry()
"""Every importer by its name. Of one precedence, those that were registered first are asked first."""
