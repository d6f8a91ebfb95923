"""Which sub-agent of a Claude Code session a record belongs to, and what it is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stenolog.adapters.providers.json_fields import as_dict, as_str, name_of

SHORT = 8


class SubAgents:
    """Names sub-agents `<type>-<first eight characters of their id>`, and knows them again. Where only the id
    of its call is known, the last eight characters of that stand in their place.

    The type is that of the call that started one, where the file tells it, else `agent`. `known` are the
    names that the log uses already: they are kept. `ran` and `prompts` have the ids of the calls that ran
    sub-agents, by the ids of the agents and by the words they were given, as far as the log has them.
    """

    def __init__(self, known: Iterable[str], ran: Mapping[str, str], prompts: Mapping[str, str]) -> None:
        self._known = sorted(known)
        self._ran = dict(ran)
        self._prompts = dict(prompts)
        self._types: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._roots: dict[str, str] = {}

    def starts(self, call_id: str, arguments: object) -> None:
        """A tool call that may start a sub-agent."""
        if kind := as_str(as_dict(arguments).get("subagent_type")):
            self._types[call_id] = kind
        if prompt := as_str(as_dict(arguments).get("prompt")):
            self._prompts[prompt] = call_id

    def ran(self, agent_id: str, call_id: str) -> None:
        """A result tells which agent its call has run."""
        if agent_id:
            self._ran[agent_id] = call_id

    def call_of(self, agent_id: str) -> str:
        """The id of the call that ran an agent; empty where the file does not tell."""
        return self._ran.get(agent_id, "")

    def call_with(self, prompt: str) -> str:
        """The id of the latest call that gave a sub-agent these words; empty where there is none."""
        return self._prompts.get(prompt, "")

    def of_record(self, record: dict[str, Any]) -> str:
        """The sub-agent in whose lane a record stands; empty for the main agent's."""
        if call_id := as_str(record.get("parent_tool_use_id")):
            return self.name(call_id, call_id)
        if not record.get("isSidechain"):
            return ""
        uuid, parent = as_str(record.get("uuid")), as_str(record.get("parentUuid"))
        root = self._roots[uuid] = self._roots.get(parent, uuid)
        return self.name(as_str(record.get("agentId")) or root, "")

    def name(self, agent_id: str, call_id: str) -> str:
        """The name of the agent of that id, started by that call."""
        if agent_id not in self._names:
            whole = name_of(agent_id).replace("/", "-")
            short = (
                whole[-SHORT:] if agent_id == call_id else whole[:SHORT]
            ).strip()  # calls' ids begin alike
            kind = name_of(self._types.get(call_id, ""), "agent").replace("/", "-")
            used = (name for name in self._known if name.endswith(f"-{short}"))
            self._names[agent_id] = next(used, f"{kind}-{short}")
        return self._names[agent_id]
