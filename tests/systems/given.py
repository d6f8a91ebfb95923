"""A conversation in a file, which every look and every word opens anew: all of it goes through a restart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import stenolog
from stenolog import AssistantMessage, Conversation, Entry, Event, Request, ToolCall

T = TypeVar("T")


class Room(NamedTuple):
    """A conversation in the file `path`."""

    path: Path
    name: str = "room"

    @contextmanager
    def opened(self) -> Iterator[Conversation]:
        """Open the log again, and yield the conversation."""
        with stenolog.open(self.path) as log:
            yield log[self.name]

    def write(self, *events: Event) -> Room:
        """Append events as they are."""
        with self.opened() as conversation:
            conversation.extend(events, expected=conversation.position)
        return self

    def answer(self, agent: str, text: str = "", *calls: ToolCall, **fields: Any) -> Request:
        """Append an answer with the receipt of the request that it answers, and give that request.

        `view` is where that request was built (now, unless it is given), `task` the lane's, and
        `policy` another than the card's; all other fields are the answer's.
        """
        view, policy, task = fields.pop("view", None), fields.pop("policy", None), fields.get("task", "")
        with self.opened() as conversation:
            asked = conversation.request(agent, view, task=task, policy=policy)
            conversation.append(
                AssistantMessage(agent=agent, text=text, tool_calls=calls, receipt=asked.receipt, **fields)
            )
        return asked

    def request(self, agent: str, at: int | None = None, **options: Any) -> Request:
        """Return the agent's request."""
        return self.look(lambda conversation: conversation.request(agent, at, **options))

    def entries(self) -> list[Entry]:
        """Return all entries of the log."""
        return self.look(lambda conversation: list(conversation.entries()))

    def look(self, view: Callable[[Conversation], T]) -> T:
        """Return a function's view of the conversation."""
        with self.opened() as conversation:
            return view(conversation)


def words(request: Request) -> list[str]:
    """Return the texts of the conversation, message by message; what stands before it is left out."""
    return [message["content"] for message in request.body["messages"][prefixed(request) :]]


def prefixed(request: Request) -> int:
    """Return the number of messages before the conversation in a body."""
    return sum(message["role"] == "system" for message in request.body["messages"][:1])


def roles(request: Request) -> list[tuple[str, Any]]:
    """Return role and content of every message."""
    return [(message["role"], message["content"]) for message in request.body["messages"]]


def shown(request: Request) -> list[tuple[tuple[int, ...], str]]:
    """Return the explanation of what is in the conversation: positions and rule, part by part."""
    return [(part.positions, part.rule) for part in request.parts if part.role not in ("system", "tools")]


def left_out(request: Request) -> list[tuple[int, int, str]]:
    """Return the explanation of what is not: first and last position, and the rule."""
    return [(run.first, run.last, run.rule) for run in request.omissions]


def around(request: Request) -> list[tuple[str, int]]:
    """Return the rules of the texts around the conversation, each with the index of the message it is in."""
    return [(part.rule, part.message) for part in request.parts if part.role == "system"]
