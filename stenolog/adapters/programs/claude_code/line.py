"""One record of a session as its conversation has it: with its key, its lane and its time."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from stenolog.projections.messages.json_fields import as_dict, as_str

MAIN = "claude"
SYNTHETIC = "<synthetic>"
"""The model of answers that no model gave."""


class Line(NamedTuple):
    """One record of a conversation: its key, the agent in whose lane it stands, when it was written."""

    key: str
    value: dict[str, Any]
    agent: str
    time: datetime
    call: str = ""
    """The id of the call that runs the sub-agent, where the record tells it."""

    @property
    def message(self) -> dict[str, Any]:
        told = self.value.get("message")
        return {"content": told} if isinstance(told, str) else as_dict(told)

    @property
    def uuid(self) -> str:
        return as_str(self.value.get("uuid"))

    @property
    def parent(self) -> str:
        return as_str(self.value.get("parentUuid")) or as_str(self.value.get("logicalParentUuid"))


def is_inserted(line: Line) -> bool:
    """Return whether Claude Code inserted a message, rather than a person or a model."""
    is_synthetic = as_str(line.message.get("model")) == SYNTHETIC
    return is_synthetic or bool(line.value.get("isMeta") or line.value.get("isCompactSummary"))
