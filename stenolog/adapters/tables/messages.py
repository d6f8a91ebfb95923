"""The table of a conversation's messages, as programs that keep them in SQL have it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.parts import Opaque, Part, Reasoning, Text
from stenolog.domain.state import address
from stenolog.projections.words import in_words

from .declaring import CONVERSATION, Table


def messages_in(entry: Entry) -> Iterator[dict[str, Any]]:
    """The messages that an entry is: what was said, by whom, and the personas that a mode switch gives.

    A brief of one agent for another is a message of the first. An error is one where something had arrived.
    """
    row = {"id": entry.id, "createdAt": entry.at}
    match entry.event:
        case UserMessage(parts=parts, author=author) as said:
            role = {"person": "user", "agent": "assistant"}.get(said.author_kind, "system")
            if parts or not said.control:
                yield {**row, "role": role, "content": _content(parts), "agent": author or None}
        case AssistantMessage(parts=parts, agent=agent, task=task):
            where = address(agent, task)
            yield {**row, "role": "assistant", "content": _content(parts), "agent": where}
        case LlmError(parts=parts, agent=agent, task=task) if parts:
            where = address(agent, task)
            yield {**row, "role": "assistant", "content": _content(parts), "agent": where}
        case ToolResult(parts=parts, name=name):
            yield {**row, "role": "tool", "content": _content(parts), "agent": name or None}
        case ModeSwitch(cards=cards):
            for agent, card in cards.items():
                if card is not None and card.persona:
                    id = f"{entry.id}:{agent}"
                    yield {**row, "id": id, "role": "system", "content": card.persona, "agent": agent}
        case _:
            pass


def _content(parts: Sequence[Part]) -> str:
    """The text as it was said; calls and files in words beside it, and nothing of what was merely thought."""
    said = [part for part in parts if not isinstance(part, Reasoning | Opaque)]
    return "\n".join(part.text if isinstance(part, Text) else in_words([part]) for part in said)


conversation_messages = Table(
    "conversation_messages",
    columns={
        "id": str,
        "workflowId": CONVERSATION,
        "role": str,
        "content": str,
        "agent": str,
        "createdAt": datetime,
    },
    rows=messages_in,
    indexes=("createdAt", "agent"),
)
"""Every message of every conversation; the role is user, assistant, system or tool."""
