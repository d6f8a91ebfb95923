"""Messages of entries as rows of `conversation_messages`, and the table of them that follows the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from stenolog.events import AssistantMessage, Entry, LlmError, ModeSwitch, ToolResult, UserMessage, address
from stenolog.parts import Part, ProviderPart, ReasoningPart, TextPart, in_words
from stenolog.tables import CONVERSATION, Table


def messages_in(entry: Entry) -> Iterator[dict[str, Any]]:
    """Yield the messages of an entry: its words with their speaker, and a mode switch's personas.

    A brief of one agent for another is a message of the first. Of an error it is what had arrived, `cutOff`,
    unless the call is made again by itself: the next answer is whole. The agent is whoever said it, by the
    entry alone: a person, an agent, a tool; None where the entry names nobody. What says nothing to read is
    no message.
    """
    row = {"id": entry.id, "createdAt": entry.time, "cutOff": isinstance(entry.event, LlmError)}
    match entry.event:
        case UserMessage(parts=parts, author=author) as said:
            role = {"person": "user", "agent": "assistant"}.get(said.author_kind, "system")
            yield from _message_row(row, role, parts, author or None)
        case AssistantMessage(parts=parts, agent=agent, task=task):
            yield from _message_row(row, "assistant", parts, address(agent, task))
        case LlmError(parts=parts, agent=agent, task=task, retry_at=None):
            yield from _message_row(row, "assistant", parts, address(agent, task))
        case ToolResult(parts=parts, name=name):
            yield from _message_row(row, "tool", parts, name or None)
        case ModeSwitch(cards=cards):
            for agent, card in cards.items():
                if card is not None and card.persona:
                    id = f"{entry.id}:{agent}"
                    yield {**row, "id": id, "role": "system", "content": card.persona, "agent": agent}
        case _:
            pass


def _message_row(
    row: dict[str, Any], role: str, parts: Sequence[Part], agent: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the row of a message, where there is anything to read in it."""
    if content := _content(parts):
        yield {**row, "role": role, "content": content, "agent": agent}


def _content(parts: Sequence[Part]) -> str:
    """Return the text of a message; calls and files are lines of their own, and thoughts are left out."""
    said = (part for part in parts if not isinstance(part, ReasoningPart | ProviderPart))
    lines = (part.text if isinstance(part, TextPart) else in_words([part]) for part in said)
    return "\n".join(line for line in lines if line)


LONGEST_AGENT = 50
ROLES = {"tool": "user"}
"""Roles that the document's table does not have: what a tool returns is input."""


def columns_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a message: the agent without its task, and one of the document's three roles."""
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
