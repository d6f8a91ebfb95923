"""Notes that Claude Code keeps beside a sub-agent's file: its type, its task, and the call that started it.

`agent-<id>.jsonl` does not tell who started the agent; `agent-<id>.meta.json` beside it does. So the note
comes in as a first record of that file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from stenolog.adapters.importers.conversion.converter import SourceConversation
from stenolog.adapters.importers.detection.sub_agents import read_note
from stenolog.adapters.importers.door.json_lines import JsonLinesReader, JsonObject
from stenolog.projections.messages.json_fields import Json, as_dict, as_str

from . import SUB_AGENTS

AGENT_NOTE = "stenolog-agent-note"
"""The type of the record that a note becomes; no file has it."""


def note_beside(path: Path) -> Iterator[JsonObject]:
    """Yield the note on the sub-agent whose file this is, as a record; nothing without one."""
    note = read_note(path, SUB_AGENTS) if path.name.startswith(SUB_AGENTS.prefix) else {}
    if note:
        yield {**note, "type": AGENT_NOTE, "agentId": path.stem.removeprefix(SUB_AGENTS.prefix)}


def is_note(document: Json) -> bool:
    """Return whether a document is such a note."""
    found = as_dict(document)
    return bool(as_str(found.get("agentType"))) and not found.keys().isdisjoint({"spawnDepth", "toolUseId"})


def read(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield nothing: a note is read with the file that it is on."""
    yield from ()
