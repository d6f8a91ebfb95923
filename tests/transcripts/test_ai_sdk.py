"""UI messages of the AI SDK, those of version 4 too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stenolog import Conversation
from stenolog.events import ModeSwitch, Usage
from stenolog.importers import import_file
from stenolog.parts import ImagePart, ReasoningPart, TextPart, ToolCall
from tests.transcripts.acceptance import (
    digests_of,
)
from tests.transcripts.given import Import, Json

HERE = Path(__file__).parent / "sessions"
FILES = [HERE / "ai-sdk-5.json", HERE / "ai-sdk-7.json"]


def user(phrase: str, id: str = "u1", **fields: Any) -> Json:
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": phrase}], **fields}


def assistant(*parts: Json, id: str = "a1", **fields: Any) -> Json:
    return {"id": id, "role": "assistant", "parts": [{"type": "step-start"}, *parts], **fields}


def text(phrase: str, state: str = "done") -> Json:
    return {"type": "text", "text": phrase, "state": state}


def tool(state: str, id: str = "c1", **fields: Any) -> Json:
    return {"type": "tool-look-up", "toolCallId": id, "state": state, "input": {"q": "x"}, **fields}


def chat(*messages: Any, **fields: Any) -> bytes:
    return json.dumps({"id": "chat-1", "messages": list(messages), **fields}).encode()


def events_in(conversation: Conversation) -> list[Any]:
    return [entry.event for entry in conversation if not isinstance(entry.event, ModeSwitch)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_real_chat_is_the_conversation_that_it_was(into: Import, path: Path) -> None:
    (found,) = import_file(into.log, path).conversations
    conversation = into.log["chat-1"]
    asked, first, good, bad, last = events_in(conversation)

    assert found.name == "chat-1"
    assert [type(part) for part in asked.parts] == [TextPart, ImagePart]
    assert into.log.blobs[asked.parts[1].blob] == b"hi"
    assert first.parts == (
        ReasoningPart(text="I look both up.", provider="anthropic", signature="c2ln"),
        TextPart(text="Let me look."),
        ToolCall(id="call_1", name="weather", arguments='{"city":"Riga"}'),
        ToolCall(id="call_2", name="broken", arguments='{"city":"Oslo"}'),
    )
    assert [(r.name, r.is_error, r.call.index) for r in (good, bad)] == [
        ("weather", False, 0),
        ("broken", True, 1),
    ]
    assert (last.text, last.usage) == ("Riga has 21 degrees.", Usage(input=20, output=10))
    assert last.meta["ai-sdk"]["metadata"]["createdAt"] == 1767322800000
    assert (first.model, conversation.settings().card_of("assistant").model) == (
        "claude-opus-5",
        "claude-opus-5",
    )
    assert conversation.settings().title == "How warm is it in Riga and Oslo?"
    assert conversation[-1].time.year == 2026


def test_a_chat_that_grows_gives_the_same_requests(tmp_path: Path) -> None:
    pending, done = tool("input-available"), tool("output-available", output="found")
    more = user("More", "u2")
    states = [
        [user("Hi")],
        [user("Hi"), assistant(text("Hel", "streaming"))],
        [user("Hi"), assistant(text("Hello"))],
        [user("Hi"), assistant(text("Hello"), tool("input-streaming", input=None))],
        [user("Hi"), assistant(text("Hello"), pending)],
        [user("Hi"), assistant(text("Hello"), done)],
        [user("Hi"), assistant(text("Hello"), done, {"type": "step-start"}, text("Found"))],
        [user("Hi"), assistant(text("Hello"), done, {"type": "step-start"}, text("Found")), more],
    ]
    versions = [chat(*messages) for messages in states]
    copy = tmp_path / "chat.json"
    complete = digests_of(copy, versions[-1])

    for version in versions:
        assert digests_of(copy, version, versions[-1]) == complete, version
    assert digests_of(copy, *versions) == complete


OLD = [
    {
        "id": "u1",
        "role": "user",
        "content": "How warm?",
        "createdAt": "2025-01-02T03:04:05.000Z",
        "experimental_attachments": [
            {"name": "a.png", "contentType": "image/png", "url": "data:image/png;base64,aGk="}
        ],
    },
    {
        "id": "a1",
        "role": "assistant",
        "content": "It is warm.",
        "reasoning": "I look.",
        "toolInvocations": [
            {
                "state": "result",
                "step": 0,
                "toolCallId": "c1",
                "toolName": "look",
                "args": {"q": 1},
                "result": {"t": 21},
            },
            {"state": "call", "step": 1, "toolCallId": "c2", "toolName": "look", "args": {"q": 2}},
        ],
    },
]
