"""UI messages of version 4 of the AI SDK, which had calls beside the text, and parts of other forms."""

from __future__ import annotations

import json
from pathlib import Path

from stenolog.parts import ImagePart, ReasoningPart, TextPart, ToolCall
from tests.transcripts.given import Import
from tests.transcripts.test_ai_sdk import text

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
SIGNED = [{"type": "text", "text": "I look.", "signature": "c2ln"}, {"type": "redacted", "data": "x"}]
LOOKED = {"state": "result", "toolCallId": "c1", "toolName": "look", "args": {}, "result": "21"}
PARTS_OF_4 = [
    {"type": "reasoning", "reasoning": "I look.", "details": SIGNED},
    {"type": "tool-invocation", "toolInvocation": LOOKED},
    {"type": "step-start"},
    {"type": "text", "text": "It is warm."},
    {"type": "source", "source": {"sourceType": "url", "id": "s", "url": "https://example.org"}},
]


def test_messages_of_version_4_with_calls_beside_the_text_are_read(into: Import, tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(OLD))
    asked, first, result, second, last = into.file(path.read_bytes(), "old.json").said

    assert into.report.format == "ai-sdk"
    assert [type(part) for part in getattr(asked, "parts", ())] == [TextPart, ImagePart]
    assert [type(part) for part in getattr(first, "parts", ())] == [ReasoningPart, ToolCall]
    assert (getattr(result, "text", ""), getattr(last, "text", "")) == ('{"t":21}', "It is warm.")
    assert [call.id for call in getattr(second, "tool_calls", ())] == ["c2"]
    assert into.entries[1].time.year == 2025


def test_parts_of_version_4_are_read(into: Import) -> None:
    message = {"id": "a1", "role": "assistant", "content": "It is warm.", "parts": PARTS_OF_4}
    entries = into.file(json.dumps([OLD[0] | {"parts": [text("How warm?")]}, message]).encode()).said

    assert [type(part) for part in getattr(entries[1], "parts", ())] == [
        ReasoningPart,
        ReasoningPart,
        ToolCall,
    ]
    assert [getattr(event, "text", "") for event in entries] == ["How warm?", "", "21", "It is warm."]
