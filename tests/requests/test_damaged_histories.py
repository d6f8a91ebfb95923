"""Twelve short histories as programs really leave them behind: valid and lossless on both wires."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stenolog import AssistantMessage, Entry, Event, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.projections.requests import build
from stenolog.projections.requests.laws import breaches
from tests.requests.histories import START
from tests.requests.judging import HERE, MODELS, SHARED, complaints, needs_judges

FILE = SHARED / "judges" / "damaged_histories.json"
HISTORIES: dict[str, list[dict[str, Any]]] = json.loads(FILE.read_text()) if HERE else {"absent": []}
pytestmark = needs_judges


def _event(fields: dict[str, Any]) -> Event:
    rest = {name: value for name, value in fields.items() if name != "event"}
    match fields["event"]:
        case "user_message":
            return UserMessage(**rest)
        case "tool_result":
            return ToolResult(**rest)
        case _:
            calls = [ToolCall(**call) for call in rest.pop("tool_calls")]
            return AssistantMessage(tool_calls=calls, **rest)


def _log(name: str) -> list[Entry]:
    events = [ModeSwitch(mode="chat"), *map(_event, HISTORIES[name])]
    return [Entry(name, i, f"e{i}", START, "", event) for i, event in enumerate(events, 1)]


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("name", HISTORIES)
def test_a_damaged_history_gives_a_valid_request_that_has_lost_nothing(name: str, wire: str) -> None:
    body = build(_log(name), "agent", wire=wire).body

    assert complaints(wire, body) == []
    sent = json.dumps(body)
    for fields in HISTORIES[name]:
        assert fields.get("text", "") in sent
        for call in fields.get("tool_calls", []):
            assert sent.count(f'"{call["name"]}"') >= 1


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("name", HISTORIES)
def test_every_prefix_of_a_damaged_history_is_valid_too(name: str, wire: str) -> None:
    log = _log(name)
    known = next(i for i, entry in enumerate(log, 1) if isinstance(entry.event, AssistantMessage))
    for length in range(known, len(log) + 1):
        body = build(log[:length], "agent", wire=wire).body

        assert complaints(wire, body) == []
        assert list(breaches(wire, body)) == []
