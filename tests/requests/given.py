"""The short words that the tests of the rules are written in. The log is given, the messages follow."""

from __future__ import annotations

from typing import Any

from stenolog import AssistantMessage, Entry, Event, Request, ToolCall, UserMessage
from stenolog.requests import build
from tests.requests.histories import START

CALL = ToolCall(id="c1", name="shell", arguments='{"cmd": "ls"}')
ASKED = UserMessage(text="List the files")


def log(*events: Event) -> list[Entry]:
    """Return the events as a log; entry ids are e1, e2 …"""
    return [Entry("talk", i, f"e{i}", START, "", event) for i, event in enumerate(events, 1)]


def chat(*events: Event, agent: str = "coder") -> Request:
    """Return the request on the OpenAI API."""
    return build(log(*events), agent, api="openai-chat")


def said(request: Request) -> list[tuple[str, Any]]:
    """Return role and content of every message."""
    return [(message["role"], message["content"]) for message in request.body["messages"]]


def calls(text: str = "", *made: ToolCall, **fields: Any) -> AssistantMessage:
    """Return an answer of the coder."""
    return AssistantMessage(agent="coder", text=text, tool_calls=made, **fields)
