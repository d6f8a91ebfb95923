"""Transcripts of Cursor's agent: `~/.cursor/projects/…/agent-transcripts/…/<session>.jsonl`.

Source: AgentSessions/Services/CursorSessionParser.swift of jazzyalex/agent-sessions. They have no times, no
models, and no ids of calls.
"""

from __future__ import annotations

import re

from stenolog import importers
from stenolog.importers import Json, JsonObject, Record, as_dict, as_str

_TYPES = {"tool_call": "tool_use", "tool-result": "tool_result"}
"""Other names of blocks."""


class CursorTranscript(importers.MessageSession):
    """Converter of a transcript."""

    system = main = "cursor"
    api = "anthropic"
    wrapped = re.compile(r"\s*<(?!user_query)[\w-]+>.*</[\w-]+>\s*\Z", re.DOTALL)

    def name_after(self, wording: str) -> None:
        """Use a person's first words, without Cursor's tags, as title."""
        super().name_after(re.sub(r"</?user_query>", " ", wording))

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a record."""
        value, key = record.value, f"#{record.line}"
        role = as_str(value.get("role"))
        if role in ("user", "assistant"):
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
        else:
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


CURSOR_TRANSCRIPT = importers.Importer(
    "cursor-transcript",
    lines=importers.LineFormat(CursorTranscript, lambda record, has_begun: ""),
    is_record=is_record,
)
