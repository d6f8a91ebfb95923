"""The questions of each phase, from the log: who was asked, who has answered, who has only read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stenolog import AssistantMessage, Conversation, Entry, ModeSwitch, UserMessage


class Task(NamedTuple):
    """A question to an agent at a position, and the position of its answer; 0: not yet."""

    agent: str
    phase: str
    asked: int
    answered: int = 0


def completions(entries: Iterable[Entry]) -> Iterator[Task]:
    """Yield every task in the order of the answers, then the unanswered ones. A tool call is no answer."""
    phase = ""
    open_tasks: dict[str, Task] = {}
    for position, event in ((entry.position, entry.event) for entry in entries):
        match event:
            case ModeSwitch(mode=str(mode)):
                phase = mode
            case AssistantMessage(purpose="answer", tool_calls=(), agent=agent) if agent in open_tasks:
                yield open_tasks.pop(agent)._replace(answered=position)
            case _:
                pass
        if isinstance(event, UserMessage | AssistantMessage):
            open_tasks.update((name, Task(name, phase, position)) for name in event.to)
    yield from open_tasks.values()


def lanes(conversation: Conversation) -> Iterator[tuple[str, int, int, str]]:
    """Yield each agent that has answered: the last position its receipts name, its answer, its session."""
    for where, lane in conversation.state().lanes.items():
        if lane.answered:
            yield where, lane.seen, lane.answered, lane.session
