"""Teams that need no network: scripted models, tools that keep a ledger, and a world without waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import stenolog
from stenolog import AssistantMessage, Conversation, Entry, LlmError, Team, ToolCall, ToolResult
from stenolog.engine import EntryAppended, Runtime, StreamDelta
from tests import virtual_time

T = TypeVar("T")
PATIENCE_SECONDS = 20.0


class Clock:
    """A clock that stands still but for sleeping, which takes no time."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, 9, tzinfo=UTC)
        self.slept: list[float] = []

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=1)
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Be that much later at once."""
        self.slept.append(seconds)
        self.now += timedelta(seconds=seconds)
        await asyncio.sleep(0)

    @property
    def world(self) -> Runtime:
        """A world in which this is how one waits and measures, and chance is always the same."""
        return Runtime(chance=lambda: 0.0, sleep=self.sleep, stopwatch=lambda: self.now.timestamp())


@contextmanager
def opened(path: Path, clock: Clock | None = None) -> Iterator[Conversation]:
    """Open the conversation "demo" in a file."""
    options: dict[str, Any] = {"clock": clock} if clock else {}
    with stenolog.open(path, **options) as log:
        yield log["demo"]


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run it in virtual time, and give up after a while: a test that hangs tells nothing."""
    return virtual_time.run(main, PATIENCE_SECONDS)


async def run_team(team: Team, conversation: Conversation, *said: Any, **options: Any) -> list[Entry]:
    """Run a team to its end, and give the entries that it told of."""
    return [
        happened.entry
        async for happened in team.run(conversation, *said, **options)
        if isinstance(happened, EntryAppended)
    ]


async def streamed(team: Team, conversation: Conversation, *said: Any, **options: Any) -> list[StreamDelta]:
    """Run a team to its end, and give what streamed."""
    return [
        happened
        async for happened in team.run(conversation, *said, **options)
        if isinstance(happened, StreamDelta)
    ]


def call(name: str, id: str = "c1", arguments: str = "{}") -> ToolCall:
    """Return a call of a tool."""
    return ToolCall(id=id, name=name, arguments=arguments)


def outline(conversation: Conversation) -> list[tuple[str, str]]:
    """Return the kinds and texts of the conversation, without the opening."""
    return [
        (entry.event.kind, getattr(entry.event, "text", "") or getattr(entry.event, "message", ""))
        for entry in conversation.entries(after=1)
    ]


def results(conversation: Conversation) -> list[ToolResult]:
    """Return the results in it."""
    return [entry.event for entry in conversation.entries() if isinstance(entry.event, ToolResult)]


def errors(conversation: Conversation, agent: str = "coder") -> list[LlmError]:
    """Return the errors of an agent."""
    events = (entry.event for entry in conversation.entries())
    return [event for event in events if isinstance(event, LlmError) and event.agent == agent]


def answers(conversation: Conversation) -> list[AssistantMessage]:
    """Return the answers in it."""
    return [entry.event for entry in conversation.entries() if isinstance(entry.event, AssistantMessage)]
