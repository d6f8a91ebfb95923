"""Which sub-agent of a Claude Code session a record belongs to, and what it is called."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..fields import name_of, obj, text

SHORT = 8


class SubAgents:
    """Names sub-agents `<type>-<first eight characters of their id>`, and knows them again.

    The type is that of the call that started one, where the file tells it, else `agent`. `known` are the
    names that the log uses already: they are kept.
    """

    def __init__(self, known: Iterable[str]) -> None:
        self._known = sorted(known)
        self._types: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._roots: dict[str, str] = {}

    def starts(self, call_id: str, arguments: object) -> None:
        """A tool call that may start a sub-agent."""
        if kind := text(obj(arguments).get("subagent_type")):
            self._types[call_id] = kind

    def of_record(self, record: dict[str, Any]) -> str:
        """The sub-agent in whose lane a record stands; empty for the main agent's."""
        if not record.get("isSidechain"):
            return ""
        uuid, parent = text(record.get("uuid")), text(record.get("parentUuid"))
        root = self._roots[uuid] = self._roots.get(parent, uuid)
        return self.name(text(record.get("agentId")) or root, "")

    def name(self, agent_id: str, call_id: str) -> str:
        """The name of the agent of that id, started by that call."""
        if agent_id not in self._names:
            short = name_of(agent_id)[:SHORT].replace("/", "-")
            kind = name_of(self._types.get(call_id, ""), "agent").replace("/", "-")
            used = (name for name in self._known if name.endswith(f"-{short}"))
            self._names[agent_id] = next(used, f"{kind}-{short}")
        return self._names[agent_id]
