"""Notes that Claude Code keeps beside a sub-agent's file: its type, its task, and the call that started it.

`agent-<id>.jsonl` does not tell who started the agent; `agent-<id>.meta.json` beside it does. So the note
comes in as a first record of that file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from stenolog.adapters.importers.converter import SourceConversation
from stenolog.adapters.importers.door import regular_file
from stenolog.adapters.importers.json_lines import JsonLinesReader, JsonObject
from stenolog.domain.errors import StenologError
from stenolog.projections.messages.json_fields import Json, as_dict, as_int, as_str

AGENT_NOTE = "stenolog-agent-note"
"""The type of the record that a note becomes; no file has it."""
NOTE = ".meta.json"
"""The suffix of a note's name."""
SUB_AGENT = "agent-"
"""The prefix of the names of a sub-agent's files."""
_LARGEST = 64 * 1024
"""A note has a few hundred bytes; what is larger is something else."""


def note_beside(path: Path) -> Iterator[JsonObject]:
    """Yield the note on the sub-agent whose file this is, as a record; nothing without one."""
    note = read_note(note_of(path)) if path.name.startswith(SUB_AGENT) else {}
    if note:
        yield {**note, "type": AGENT_NOTE, "agentId": path.stem.removeprefix(SUB_AGENT)}


def note_of(path: Path) -> Path:
    """Return the place of the note on a sub-agent, given its file."""
    return path.with_name(f"{path.stem}{NOTE}")


def file_of(path: Path) -> Path | None:
    """Return the file of the sub-agent that a note is on; None for another path, and where there is none."""
    file = path.with_name(f"{path.name.removesuffix(NOTE)}.jsonl")
    return file if path.name.endswith(NOTE) and file.is_file() else None


def depth_of(path: Path) -> int:
    """Return how many agents stand above a sub-agent: those nearer to the main agent are imported first."""
    return as_int(read_note(note_of(path)).get("spawnDepth"))


def read_note(path: Path) -> JsonObject:
    """Return a note; empty where there is none that can be read."""
    with suppress(OSError, ValueError, RecursionError, StenologError), regular_file(path) as stream:
        return as_dict(JsonLinesReader().document(BytesIO(stream.read(_LARGEST))))
    return {}


def is_note(document: Json) -> bool:
    """Return whether a document is such a note."""
    found = as_dict(document)
    return bool(as_str(found.get("agentType"))) and not found.keys().isdisjoint({"spawnDepth", "toolUseId"})


def read(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield nothing: a note is read with the file that it is on."""
    yield from ()
