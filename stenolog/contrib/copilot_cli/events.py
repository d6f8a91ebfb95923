"""Events of a session: how one is recognised, and the sub-agents that they name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stenolog.importers import Json, JsonObject, agent_called, as_dict, as_str

_FAMILIES = frozenset(
    (
        "session",
        "user",
        "assistant",
        "tool",
        "system",
        "hook",
        "subagent",
        "permission",
        "skill",
        "model",
        "abort",
    )
)
"""The first words of the types of events."""
_SHORT = 8
"""Characters of the id of a call by which a sub-agent is named."""


class SessionEvent:
    """One record: its key, its data, and the agent in whose lane it stands."""

    def __init__(self, key: str, value: JsonObject, agent: str) -> None:
        self.key = key
        self.kind = as_str(value.get("type"))
        self.data = as_dict(value.get("data"))
        self.agent = agent

    def text(self, *names: str) -> str:
        """Return the first of these fields that is a text; empty where none is."""
        return next((text for name in names if (text := as_str(self.data.get(name)))), "")


class SubAgents:
    """The names of sub-agents, by the ids of the calls that run them and by their own.

    A name is the agent's kind and the end of the id by which it is first known.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self.prompts: dict[str, str] = {}
        """The words that a call gives a sub-agent, by the id of the call."""

    def name(self, id: str, kind: str = "") -> str:
        """Return the name of a sub-agent; one whose kind is not told yet is an `agent`."""
        return self._names.setdefault(id, agent_called(f"{kind or 'agent'}-{id[-_SHORT:]}"))

    def rename(self, old: str, new: str) -> None:
        """Give a sub-agent another name: the record that tells its kind may stand in its own lane."""
        self._names = {id: new if name == old else name for id, name in self._names.items()}

    def ids_of(self, name: str) -> list[str]:
        """Return the ids by which a sub-agent is known."""
        return [id for id, each in self._names.items() if each == name]

    def call(self, request: JsonObject) -> None:
        """Note a tool call that may run a sub-agent."""
        if prompt := _prompt_in(request.get("arguments")):
            self.prompts[as_str(request.get("toolCallId"))] = prompt


def _prompt_in(raw: Json) -> str:
    """Return the words that a call gives a sub-agent; empty where it gives none."""
    if isinstance(raw, str) and '"prompt"' in raw:
        try:
            raw = json.loads(raw)
        except (ValueError, RecursionError):
            return ""
    return as_str(as_dict(raw).get("prompt"))


def is_event(value: Json) -> bool:
    """Return whether a record is one of a session."""
    record: dict[str, Any] = as_dict(value)
    named = {"type", "data", "id", "timestamp", "parentId"} <= record.keys()
    return named and isinstance(record["data"], dict) and as_str(record["type"]).split(".")[0] in _FAMILIES


def session_of(record: JsonObject, has_begun: bool) -> str:
    """Return the session that a record begins; what follows belongs to it."""
    begins = record.get("type") == "session.start" and not has_begun
    return as_str(as_dict(record.get("data")).get("sessionId")) if begins else ""


def name_of(path: Path) -> str:
    """Return the name of a session's folder; of a file with another name than usual, its own."""
    return path.absolute().parent.name if path.name == "events.jsonl" else path.stem
