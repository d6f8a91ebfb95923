"""What a file of documents or of lines holds beside conversations is named by its place."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from stenolog.contrib.adk.files import read as read_adk
from stenolog.contrib.ai_sdk.files import read as read_ai_sdk
from stenolog.contrib.atif.files import read as read_atif
from stenolog.contrib.pydantic_ai.files import read as read_pydantic_ai
from stenolog.importers import JsonLinesReader

MESSAGE = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hi."}]}
STEP = {"step_id": 1, "source": "user", "message": "Hi."}
SOUND: dict[str, tuple[Callable[..., Any], Any, str]] = {
    "adk": (
        read_adk,
        {"id": "s1", "appName": "a", "userId": "u", "events": []},
        "a session or an evaluation set",
    ),
    "ai-sdk": (read_ai_sdk, {"id": "c1", "messages": [MESSAGE]}, "a chat or a message"),
    "atif": (
        read_atif,
        {"schema_version": "ATIF-v1.2", "session_id": "x", "steps": [STEP]},
        "an ATIF trajectory",
    ),
    "pydantic-ai": (read_pydantic_ai, [{"kind": "request", "parts": []}], "a list of messages"),
}


@pytest.mark.parametrize("format", SOUND)
def test_a_line_that_is_something_else_is_skipped_with_its_number(format: str) -> None:
    read, sound, expected = SOUND[format]
    reading = JsonLinesReader()
    lines = "".join(f"{json.dumps(value)}\n" for value in (sound, 5, "text"))
    found = [*read(io.BytesIO(lines.encode()), reading)]

    assert len(found) == 1
    assert [(each.line, each.reason, each.unit) for each in reading.skipped] == [
        (2, f"expected {expected}, found int", "line"),
        (3, f"expected {expected}, found str", "line"),
    ]


@pytest.mark.parametrize("format", ["adk", "ai-sdk", "atif"])
def test_of_a_list_the_item_is_named(format: str) -> None:
    read, sound, expected = SOUND[format]
    reading = JsonLinesReader()
    found = [*read(io.BytesIO(json.dumps([sound, 5]).encode()), reading)]

    assert len(found) == 1
    assert [(each.line, each.reason) for each in reading.skipped] == [(2, f"expected {expected}, found int")]
