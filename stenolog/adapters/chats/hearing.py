"""Mentions of agents in incoming messages, which tell a chat whom a message is for."""

from __future__ import annotations

from collections.abc import Mapping

from stenolog.adapters.engine.mentions import agents_by_name, mentioned_agents

__all__ = ["agents_by_name", "mentioned"]


def mentioned(text: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """The agents that a text names by `@name`, in the order of their first mention; `names` has the agent of
    each name that it may be called by, in lower case."""
    return mentioned_agents(text, names)
