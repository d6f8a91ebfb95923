"""Tool `remember`: an agent keeps a fact, which the policy `memory` shows despite cuts."""

from __future__ import annotations

from stenolog.domain.events import AssistantMessage

from .base import ToolContext
from .functions import tool


@tool(repeat="keyed")
def remember(fact: str, call: ToolContext) -> str:
    """Keep a fact for later: it stays in your context when older messages no longer do."""
    assert call.conversation is not None, "the engine gives the conversation"
    if not fact.strip():
        raise ValueError("expected a fact, found no words")
    agent = call.lane.partition("/")[0]
    # By the call's key, so that a call that a crash repeats keeps the fact once.
    call.conversation.append(
        AssistantMessage(agent=agent, purpose="memory", text=fact), id=f"fact-{call.key}"
    )
    return "kept"
