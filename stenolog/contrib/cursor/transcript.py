"""Transcripts of Cursor's agent: `~/.cursor/projects/…/agent-transcripts/…/<session>.jsonl`.

Source: AgentSessions/Services/CursorSessionParser.swift of jazzyalex/agent-sessions. They have no times, no
models, and no ids of calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from stenolog import importers
from stenolog.importers import Json, JsonObject, Record, as_dict, as_str

_TYPES = {"tool_call": "tool_use", "tool-result": "tool_result"}
"""Other names of blocks."""
_ADDED = (
    "additional_data|agent_skills|agent_transcripts|always_applied_workspace_rules|attached_files|current_file"
    "|environment_details|git_status|linter_errors|manually_attached_skills|mcp_file_system"
    "|open_and_recently_viewed_files|project_layout|rules|system[_-]reminder|timestamp|user_info|user_rules"
)
"""The tags, as a pattern, of what Cursor adds to a person's words."""
_SESSION = "session"
"""The type that a session's id gets here, which only its file's name has."""


class CursorSession(importers.MessageSession):
    """A session of Cursor's agent, whose words are a person's unless they are all in tags of Cursor's."""

    system = main = "cursor"
    wrapped = re.compile(
        rf"(?!.*<user_query>){importers.MessageSession.only_tags(_ADDED).pattern}", re.DOTALL
    )

    def name_after(self, wording: str) -> None:
        """Use a person's first words, without what Cursor puts around them, as title."""
        _, _, query = wording.partition("<user_query>")
        super().name_after((query or wording).partition("</user_query>")[0])


class CursorTranscript(CursorSession):
    """Converter of a transcript."""

    api = "anthropic"

    def __init__(self, log: importers.ExistingLog) -> None:
        super().__init__(log)
        named = (id for id, position in log.positions.items() if position in log.imported)
        self._is_richer = any(not id.startswith("#") for id in named)
        """True if the log has the session from a database, where messages have ids."""

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a record."""
        value, key = record.value, f"#{record.line}"
        role = as_str(value.get("role"))
        if self._is_richer:
            self.ignored["record of a session that the log has from a database"] += (
                value.get("type") != _SESSION
            )
        elif role in ("user", "assistant"):
            content = importers.blocks_in(as_dict(value.get("message")).get("content"))
            # A result without an id belongs to the next call that is open when it is written.
            content = [
                {**block, "type": _TYPES.get(as_str(block.get("type")), block.get("type"))}
                for block in content
            ]
            apart = any(block.get("type") == "tool_result" for block in content)
            for nth, run in enumerate([[block] for block in content] if apart else [content]):
                blocks = [self._block(block, f"{key}-{nth}-{at}") for at, block in enumerate(run)]
                self.write_message(
                    f"{key}.{nth}" if nth else key,
                    {"role": role, "content": blocks},
                    provider=self.system,
                    model=as_str(value.get("model")),
                )
        elif value.get("type") != _SESSION:
            self.ignored[as_str(value.get("type")) or "record"] += 1
        return self.writer.drain()

    def _block(self, block: JsonObject, key: str) -> JsonObject:
        if block.get("type") == "tool_use":
            return {**block, "id": as_str(block.get("id")) or key}
        if block.get("type") == "tool_result":
            given = as_str(block.get("tool_use_id"))
            known = self.writer.find_call(given) is not None
            return {**block, "tool_use_id": given if known else self.writer.call_before() or given}
        return block


def is_record(value: Json) -> bool:
    """Return whether a record is a message."""
    record = as_dict(value)
    message = as_dict(record.get("message"))
    is_plain = "type" not in record and "content" in message and "role" not in message
    return is_plain and record.get("role") in ("user", "assistant")


def session_beside(path: Path) -> Iterator[JsonObject]:
    """Yield the id of a session, by which databases name it too."""
    if "agent-transcripts" in path.parts:
        yield {"type": _SESSION, "id": path.stem}


def session_of(record: JsonObject, has_begun: bool) -> str:
    """Return the session that a file's name begins."""
    return as_str(record.get("id")) if record.get("type") == _SESSION and not has_begun else ""


CURSOR_TRANSCRIPT = importers.Importer(
    "cursor-transcript",
    lines=importers.LineFormat(CursorTranscript, session_of, session_beside),
    is_record=is_record,
)
