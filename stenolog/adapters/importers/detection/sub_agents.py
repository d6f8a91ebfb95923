"""Files of sub-agents that lie beside a session, and the notes that a program keeps on them."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO
from pathlib import Path

from stenolog.adapters.importers.door.files import regular_file
from stenolog.adapters.importers.door.json_lines import JsonLinesReader, JsonObject
from stenolog.domain.errors import StenologError
from stenolog.projections.messages.json_fields import as_dict, as_int
from stenolog.projections.programs import PROGRAMS, SubAgentFiles

_LARGEST = 64 * 1024
"""A note has a few hundred bytes; what is larger is something else."""


def note_suffixes() -> tuple[str, ...]:
    """Return the suffixes of all programs' notes."""
    return tuple(each.suffix for each in _kinds())


def noted_file(path: Path) -> Path | None:
    """Return the file of the sub-agent that a note is on; None for another path, or if there is no file."""
    for each in _kinds():
        file = path.with_name(f"{path.name.removesuffix(each.suffix)}.jsonl")
        if path.name.endswith(each.suffix) and file.is_file():
            return file
    return None


def depth_of(path: Path) -> int | None:
    """Return how many agents are above the sub-agent whose file this is; None for another file."""
    for each in _kinds():
        if path.name.startswith(each.prefix) and not path.name.endswith(each.suffix):
            return as_int(read_note(path, each).get(each.depth))
    return None


def read_note(path: Path, files: SubAgentFiles) -> JsonObject:
    """Return the note on the sub-agent whose file this is; empty if none can be read."""
    note = path.with_name(f"{path.stem}{files.suffix}")
    with suppress(OSError, ValueError, RecursionError, StenologError), regular_file(note) as stream:
        return as_dict(JsonLinesReader().document(BytesIO(stream.read(_LARGEST))))
    return {}


def _kinds() -> list[SubAgentFiles]:
    return [each.sub_agents for each in PROGRAMS.values() if each.sub_agents]
