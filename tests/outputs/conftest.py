"""A conversation in which tools have run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import stenolog
from stenolog import AssistantMessage, Conversation, Log, TextPart, ToolCall, ToolResult, UserMessage
from stenolog.tools import store_large
from tests.outputs.given import LARGE, artifact


@pytest.fixture
def log() -> Iterator[Log]:
    with stenolog.open(":memory:") as opened:
        yield opened


@pytest.fixture
def conversation(log: Log) -> Conversation:
    """Return a small result, a large one stored by `store_large`, one with an odd id, and an artifact."""
    conversation = log["build"]
    conversation.append(UserMessage(text="Run the tests."))
    calls = [ToolCall(id=id, name=name) for id, name in (("c1", "ls"), ("c2", "pytest"), ("c3", "cat"))]
    conversation.append(AssistantMessage(agent="coder", tool_calls=calls))
    conversation.append(ToolResult(call_id="c1", name="ls", text="a\nb"), id="small")
    conversation.append(store_large(log, ToolResult(call_id="c2", name="pytest", text=LARGE)), id="large")
    conversation.append(
        ToolResult(call_id="c3", parts=[TextPart(text="one"), TextPart(text="two")]), id="odd/../id: 7"
    )
    conversation.append(UserMessage(parts=[artifact(log, "# The plan")]))
    return conversation
