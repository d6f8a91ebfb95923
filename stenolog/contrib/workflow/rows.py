"""Messages as rows of `conversation_messages`, and the table that follows the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from stenolog import events
from stenolog.parts import Part, ProviderPart, ReasoningPart, TextPart, in_words
from stenolog.tables import CONVERSATION, Table


def messages_in(entry: events.Entry) -> Iterator[dict[str, Any]]:
    """Yield an entry's messages: its words with their speaker, and a mode switch's personas.

    An agent's brief for another is a message of the first. An error gives the partial answer, `cutOff`,
    unless the call is retried. The agent is the person, agent or tool that the entry names, else None. Empty
    texts are left out.
    """
    row = {"id": entry.id, "createdAt": entry.time, "cutOff": isinstance(entry.event, events.LlmError)}
    match entry.event:
        case events.UserMessage(parts=parts, author=author) as said:
            role = {"person": "user", "agent": "assistant"}.get(said.author_kind, "system")
            yield from _message_row(row, role, parts, author or None)
        case events.AssistantMessage(parts=parts, agent=agent, task=task):
            yield from _message_row(row, "assistant", parts, events.address(agent, task))
        case events.LlmError(parts=parts, agent=agent, task=task, retry_at=None):
            yield from _message_row(row, "assistant", parts, events.address(agent, task))
        case events.ToolResult(parts=parts, name=name):
            yield from _message_row(row, "tool", parts, name or None)
        case events.ModeSwitch(cards=cards):
            for agent, card in cards.items():
                if card is not None and card.persona:
                    id = f"{entry.id}:{agent}"
                    yield {**row, "id": id, "role": "system", "content": card.persona, "agent": agent}
        case _:
            pass


def _message_row(
    row: dict[str, Any], role: str, parts: Sequence[Part], agent: str | None
) -> Iterator[dict[str, Any]]:
    if content := _content(parts):
        yield {**row, "role": role, "content": content, "agent": agent}


def _content(parts: Sequence[Part]) -> str:
    """Return a message's text, without reasoning; calls and files are lines of their own."""
    said = (part for part in parts if not isinstance(part, ReasoningPart | ProviderPart))
    lines = (part.text if isinstance(part, TextPart) else in_words([part]) for part in said)
    return "\n".join(line for line in lines if line)


LONGEST_AGENT = 50
ROLES = {"tool": "user"}
"""Roles that the document's table does not have: what a tool returns is input."""


def columns_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return a message's columns: the agent without its task, and one of three roles."""
    agent = row["agent"].partition("/")[0][:LONGEST_AGENT] if row["agent"] else None
    return {
        "role": ROLES.get(row["role"], row["role"]),
        "content": row["content"],
        "agent": agent,
        "createdAt": row["createdAt"],
        "cutOff": row["cutOff"],
    }


conversation_messages = Table(
    "conversation_messages",
    columns={
        "id": str,
        "workflowId": CONVERSATION,
        "role": str,
        "content": str,
        "agent": str,
        "createdAt": datetime,
        "cutOff": bool,
    },
    rows=messages_in,
    indexes=("createdAt", "agent"),
    version=3,
)
"""Every message of every conversation; the role is user, assistant, system or tool."""
