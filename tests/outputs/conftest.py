"""A conversation in which tools have run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import stenolog
from stenolog import Conversation, Log, Text, ToolResult, UserMessage
from stenolog.adapters.outputs import store_large
from tests.outputs.given import LARGE, artifact


@pytest.fixture
def log() -> Iterator[Log]:
    with stenolog.open(":memory:") as opened:
        yield opened


@pytest.fixture
def talk(log: Log) -> Conversation:
    """A small result, a large one stored by `store_large`, one with an odd id, and an artifact."""
    talk = log["build"]
    talk.append(UserMessage(text="Run the tests."))
    talk.append(ToolResult(call_id="c1", name="ls", text="a\nb"), id="small")
    talk.append(store_large(log, ToolResult(call_id="c2", name="pytest", text=LARGE)), id="large")
    talk.append(ToolResult(call_id="c3", parts=[Text(text="one"), Text(text="two")]), id="odd/../id: 7")
    talk.append(UserMessage(parts=[artifact(log, "# The plan")]))
    return talk
