"""Message histories of pydantic-ai in files, written by the library itself."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import (
    Agent,
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    ModelRetry,
    RequestUsage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from stenolog import AssistantMessage, UserMessage
from stenolog.events import ModeSwitch, Usage
from stenolog.frameworks import to_pydantic_ai
from stenolog.importers import import_file
from stenolog.parts import ImagePart, ReasoningPart, ToolCall
from tests.transcripts.given import Import, Json


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Think and call two tools, call one again that asked for it, then answer."""
    returned = [part for m in messages for part in m.parts if part.part_kind == "tool-return"]
    if not returned:
        return ModelResponse(
            parts=[
                ThinkingPart("I look both up.", signature="c2ln", provider_name="anthropic"),
                ToolCallPart("lookup", {"title": "Emma"}, tool_call_id="c1"),
                ToolCallPart("price", '{"title": "Emma"}', tool_call_id="c2"),
            ],
            usage=RequestUsage(input_tokens=20, output_tokens=5, cache_read_tokens=4),
        )
    return ModelResponse(parts=[TextPart("Emma is by Austen.")])


def history() -> list[ModelMessage]:
    """Return the messages of a run with two tools, one of which asks for a retry."""
    agent = Agent(FunctionModel(scripted, model_name="claude-opus-5"), instructions="You know all books.")

    @agent.tool_plain
    def lookup(title: str) -> dict[str, Any]:
        return {"author": "Austen", "title": title}

    @agent.tool_plain
    def price(title: str) -> str:
        raise ModelRetry(f"no price of {title}")

    picture = BinaryContent(b"\xff\xfe\xfb", media_type="image/png")
    first = asyncio.run(agent.run(["Who wrote this?", picture]))
    second = asyncio.run(agent.run("And when?", message_history=first.all_messages()))
    return second.all_messages()


def dumped(messages: list[ModelMessage]) -> bytes:
    return ModelMessagesTypeAdapter.dump_json(messages)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "history.json"
    path.write_bytes(dumped(history()))
    return path


def events_in(into: Import) -> list[Any]:
    return [entry.event for entry in into.entries if not isinstance(entry.event, ModeSwitch)]


def test_a_history_is_the_conversation_that_it_was(into: Import, file: Path) -> None:
    conversation = into.file(file.read_bytes(), "history.json").conversation
    prompt, thought, lookup, price, answer, *_ = events_in(into)

    assert isinstance(prompt, UserMessage)
    assert isinstance(thought, AssistantMessage)
    assert isinstance(prompt.parts[1], ImagePart)
    assert into.log.blobs[prompt.parts[1].blob] == b"\xff\xfe\xfb"
    assert thought.parts[0] == ReasoningPart(text="I look both up.", provider="anthropic", signature="c2ln")
    assert thought.parts[1:] == (
        ToolCall(id="c1", name="lookup", arguments='{"title":"Emma"}'),
        ToolCall(id="c2", name="price", arguments='{"title": "Emma"}'),
    )
    assert thought.usage == Usage(input=20, output=5, cache_read=4)
    assert [(e.name, e.is_error, e.call.index) for e in (lookup, price)] == [
        ("lookup", False, 0),
        ("price", True, 1),
    ]
    assert answer.text == "Emma is by Austen."
    card = conversation.settings().card_of("assistant")
    assert (card.persona, card.model) == ("You know all books.", "claude-opus-5")
    assert conversation.settings().title == "Who wrote this?"


def test_a_list_on_each_line_is_one_history(into: Import) -> None:
    messages = history()
    runs = b"\n".join(dumped(part) for part in (messages[:4], messages[4:]))
    conversation = into.file(runs, "runs.jsonl").conversation

    assert into.report.format == "pydantic-ai"
    assert dumped(to_pydantic_ai(conversation)) == dumped(messages)


def test_the_library_is_not_needed(into: Import, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)

    assert import_file(into.log, file).conversations[0].appended > 0


OLD: list[Json] = [
    {
        "kind": "request",
        "parts": [
            {"part_kind": "system-prompt", "content": "Be brief.", "timestamp": "2025-01-02T03:04:05Z"},
            {"part_kind": "user-prompt", "content": "Hi", "timestamp": "2025-01-02T03:04:05Z"},
        ],
    },
    {
        "kind": "response",
        "parts": [{"part_kind": "tool-call", "tool_name": "look", "args": '{"a": 1}', "tool_call_id": "c1"}],
        "model_name": "gpt-4o",
        "vendor_id": "resp_1",
        "usage": {
            "requests": 1,
            "request_tokens": 9,
            "response_tokens": 2,
            "total_tokens": 11,
            "details": None,
        },
        "timestamp": "2025-01-02T03:04:06Z",
    },
    {
        "kind": "request",
        "parts": [
            {"part_kind": "retry-prompt", "content": "again", "tool_name": "look", "tool_call_id": "c1"}
        ],
    },
    {"kind": "response", "parts": [{"part_kind": "text", "content": "Ho."}]},
    {"kind": "request", "parts": [{"part_kind": "retry-prompt", "content": "Say more.", "tool_name": None}]},
]


def test_what_earlier_versions_wrote_is_read_too(into: Import) -> None:
    conversation = into.file(json.dumps(OLD).encode(), "old.json").conversation
    system, _, call, result, answer, feedback = events_in(into)

    assert (system.author_kind, feedback.author_kind) == ("system", "system")
    assert (call.usage, call.source.id) == (Usage(input=9, output=2), "resp_1")
    assert (result.is_error, result.call is not None, result.text) == (True, True, "again")
    assert (answer.text, feedback.text) == ("Ho.", "Say more.")
    assert [message.kind for message in to_pydantic_ai(conversation)] == [message["kind"] for message in OLD]


def test_an_unreadable_message_is_reported_with_its_number(into: Import) -> None:
    into.file(json.dumps([OLD[0], 7, {"kind": "response"}, OLD[3]]).encode(), "broken.json")

    assert [(line.line, line.unit) for line in into.report.skipped] == [(2, "message"), (3, "message")]
