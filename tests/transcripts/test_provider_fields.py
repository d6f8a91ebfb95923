"""What OpenAI's formats hold beside words is kept, and is in the next request as it was."""

from __future__ import annotations

import json
from typing import Any

from stenolog import AssistantMessage, TextPart, ToolCall, UserMessage
from stenolog.parts import FilePart, ProviderPart, ReasoningPart
from stenolog.requests import build
from tests.transcripts.given import Import, codex, item, meta

WEATHER = {"name": "get_weather", "parameters": {"type": "object", "properties": {}}, "strict": True}
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}


def document(into: Import, *messages: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    """Return the messages of the next request, once a document of these was imported."""
    into.file(json.dumps({"messages": list(messages), **fields}).encode(), "talk.json")
    request = build(into.entries, "assistant", api="openai-chat", blobs=into.log.blobs)
    sent: list[dict[str, Any]] = request.body["messages"]
    return sent


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def test_reasoning_content_is_of_the_model_that_the_document_is_for(into: Import) -> None:
    thought = {"role": "assistant", "content": "", "reasoning_content": "I need it.", "tool_calls": [CALL]}
    done = {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}

    _, sent, _ = document(into, {"role": "user", "content": "Hi"}, thought, done, model="deepseek-reasoner")

    (answer,) = [event for event in into.said if isinstance(event, AssistantMessage)]
    assert (answer.model, answer.parts[0]) == (
        "deepseek-reasoner",
        ReasoningPart(text="I need it.", provider="openai"),
    )
    assert sent["reasoning_content"] == "I need it."


def test_strict_tools_stay_strict(into: Import) -> None:
    document(
        into,
        {"role": "user", "content": "Hi"},
        model="gpt-5",
        tools=[{"type": "function", "function": WEATHER}],
    )

    request = build(into.entries, "assistant", api="openai-chat")

    assert request.body["tools"][0]["function"]["strict"] is True


def test_a_file_by_id_a_recording_and_an_unknown_part_are_kept(into: Import) -> None:
    file = {"type": "file", "file": {"file_id": "file-1"}}
    sound = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    odd = {"type": "hologram", "data": "x"}

    (sent,) = document(into, user({"type": "text", "text": "Hi"}, file, sound, odd), model="gpt-5")

    assert sent["content"][1:] == [file, sound]
    (said,) = [event for event in into.said if isinstance(event, UserMessage)]
    _, by_id, recording, opaque = said.parts
    assert by_id == FilePart(provider="openai", id="file-1")
    assert isinstance(recording, FilePart)
    assert recording.media_type == "audio/wav"
    assert opaque == ProviderPart(provider="openai", raw='{"type":"hologram","data":"x"}')


def test_codex_keeps_phases_namespaces_and_the_forms_of_calls(into: Import) -> None:
    into.records(
        meta(),
        codex("turn_context", model="gpt-5.4"),
        item("message", role="user", content=[{"type": "input_text", "text": "Go"}]),
        item(
            "message",
            role="assistant",
            phase="commentary",
            content=[{"type": "output_text", "text": "Looking."}],
        ),
        item("function_call", name="ask", namespace="mcp__github", arguments="{}", call_id="c1"),
        item("function_call_output", call_id="c1", output="yes"),
        item("custom_tool_call", name="apply_patch", input="*** Begin", call_id="c2"),
        item("custom_tool_call_output", call_id="c2", output="done"),
        item("tool_search_call", execution="client", arguments={"query": "mail"}, call_id="c3"),
        item(
            "tool_search_output", execution="client", tools=[{"type": "function", "name": "f"}], call_id="c3"
        ),
    )

    parts = [part for event in into.said if isinstance(event, AssistantMessage) for part in event.parts]
    sent = build(into.entries, "codex", api="openai-responses").body["input"]

    assert parts[:2] == [
        TextPart(text="Looking.", phase="commentary"),
        ToolCall(id="c1", name="ask", namespace="mcp__github"),
    ]
    assert [part.form for part in parts if isinstance(part, ToolCall)] == ["", "custom", "tool_search"]
    assert [message["type"] for message in sent[1:]] == [
        "message",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "tool_search_call",
        "tool_search_output",
    ]
    assert (sent[1]["phase"], sent[2]["namespace"]) == ("commentary", "mcp__github")
    assert sent[-1]["tools"] == [{"type": "function", "name": "f"}]
