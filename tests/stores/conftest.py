"""Logs to test with: on disk and in memory, with times, ids and salts that are the same in every run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random

import pytest

import stenolog
from stenolog import AssistantMessage, Conversation, Entry, Event, Log, ToolCall, ToolResult, UserMessage
from stenolog.parts import ImagePart
from stenolog.testing import examples

START = datetime(2026, 1, 1, tzinfo=UTC)


def fixed_clock() -> Callable[[], datetime]:
    """Return a clock that goes on by a second each time it is looked at."""
    ticks = count()
    return lambda: START + timedelta(seconds=next(ticks))


def fixed_ids(prefix: str = "e") -> Callable[[], str]:
    """Return a function that gives the ids e1, e2, e3 …"""
    numbers = count(1)
    return lambda: f"{prefix}{next(numbers)}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talks.db"


@pytest.fixture(params=["file", "memory"])
def log(request: pytest.FixtureRequest, path: Path) -> Iterator[Log]:
    where = path if request.param == "file" else ":memory:"
    with stenolog.open(where, clock=fixed_clock(), ids=fixed_ids(), entropy=bytes) as opened:
        yield opened


@pytest.fixture
def conversation(log: Log) -> Conversation:
    return log["demo"]


@pytest.fixture
def folded(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return a function that counts the entries folded since the last call."""
    seen: list[Entry] = []
    read = Conversation.entries

    def counting(conversation: Conversation, after: int = 0, at: int | None = None) -> object:
        for entry in read(conversation, after, at):
            seen.append(entry)
            yield entry

    monkeypatch.setattr(Conversation, "entries", counting)

    def since() -> int:
        count = len(seen)
        seen.clear()
        return count

    return since


def turns(count: int) -> list[Event]:
    """Return so many turns of a question, a call, its result and an answer."""
    turn: list[Event] = [
        UserMessage(text="go"),
        AssistantMessage(agent="coder", tool_calls=[ToolCall(id="c1", name="shell")]),
        ToolResult(call_id="c1", text="done"),
        AssistantMessage(agent="coder", text="done"),
    ]
    return turn * count


def said(conversation: Conversation, *texts: str) -> None:
    """Append a user message for each text."""
    for text in texts:
        conversation.append(UserMessage(text=text))


def texts(conversation: Conversation, after: int = 0, at: int | None = None) -> list[str]:
    """Return the texts of messages, without the opening."""
    return [
        entry.event.text for entry in conversation.entries(after, at) if isinstance(entry.event, UserMessage)
    ]


def manifold(log: Log, messages: int) -> Conversation:
    """Begin a conversation of every kind, with entries and a blob too long for a page, among others."""
    conversation, noise = log["demo"], Random(2)  # what compression cannot bring onto one page
    log.blobs.put(b"test")  # the one that the examples name
    picture = log.blobs.put(Random(1).randbytes(5000))
    conversation.extend([*examples().values()], expected=0)
    conversation.append(UserMessage(parts=[ImagePart(blob=picture)]))
    for number in range(messages):
        said(log[f"talk {number % 4}"], f"{number} " + noise.randbytes(20 * number).hex())
    call = ToolCall(id="c", name=noise.randbytes(2_500).hex())
    conversation.append(AssistantMessage(agent="a", tool_calls=[call]))
    conversation.append(ToolResult(call_id="c", text=noise.randbytes(8_000).hex()))
    return conversation
