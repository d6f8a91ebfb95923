"""Logs of Burr's tracking: the chat history in the state, step by step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, ToolResult, UserMessage
from stenolog.events import LlmError
from stenolog.importers import import_file
from stenolog.parts import ImagePart
from tests.transcripts.given import Import, Json, lines

pytestmark = pytest.mark.usefixtures("sound")


def step(number: int, action: str, history: list[Any], field: str = "chat_history", **end: Any) -> list[Json]:
    """Return the two records of a step, behind which the history is this one."""
    at = f"2026-03-01T09:00:{number:02}.000001"
    ids = {"action": action, "sequence_id": number}
    state = {"__SEQUENCE_ID": number, "prompt": "x", field: history}
    return [
        {"type": "begin_entry", "start_time": at, "inputs": {"prompt": "x"} if number == 0 else {}, **ids},
        {"type": "end_entry", "end_time": at, "result": {}, "exception": None, "state": state, **ids, **end},
    ]


HI = {"role": "user", "content": "Draw a loaf.", "type": "text"}
HO = {"role": "assistant", "content": "Here.", "type": "text"}
MORE = {"role": "user", "content": "Another.", "type": "text"}
AYE = {"role": "assistant", "content": "Aye.", "type": "text"}
CHAT = [
    *step(0, "prompt", [HI]),
    *step(1, "check_safety", [HI]),
    *step(2, "response", [HI, HO]),
    {"type": "begin_span", "action_sequence_id": 2, "span_id": "2:0", "span_name": "x"},
    *step(3, "prompt", [HI, HO, MORE]),
    *step(4, "response", [HI, HO, MORE, AYE]),
]


def written(folder: Path, *records: Json) -> Path:
    """Write a log as Burr keeps it: in a folder of the application's name."""
    (home := folder / "chat-7").mkdir(exist_ok=True)
    (file := home / "log.jsonl").write_bytes(lines(*records))
    return file


def test_a_log_is_the_chat_and_each_message_names_the_step_that_added_it(
    into: Import, tmp_path: Path
) -> None:
    (found,) = import_file(into.log, written(tmp_path, *CHAT)).conversations
    talk = into.log[found.name]
    events: list[Any] = [entry.event for entry in talk][1:]
    events = [event for event in events if isinstance(event, UserMessage | AssistantMessage)]

    assert (found.name, talk.settings().title) == ("chat-7", "Draw a loaf.")
    assert [event.text for event in events] == ["Draw a loaf.", "Here.", "Another.", "Aye."]
    assert [event.meta["burr"]["action"] for event in events] == ["prompt", "response", "prompt", "response"]
    assert events[1].meta["burr"]["steps"] == [{"action": "check_safety", "sequence_id": 1}]
    assert found.ignored == {"begin_span": 1}


def test_a_step_that_failed_is_an_error_with_its_traceback(into: Import) -> None:
    trace = "Traceback (most recent call last):\n  File …\nopenai.RateLimitError: 429 too many requests"
    into.records(*CHAT, *step(5, "decide", [HI, HO, MORE, AYE], exception=trace, result=None))
    error: Any = into.said[-1]

    assert isinstance(error, LlmError)
    assert (error.category, error.message) == ("rate_limited", "openai.RateLimitError: 429 too many requests")
    about: Any = error.meta["burr"]
    assert about["traceback"] == trace


@pytest.mark.parametrize(
    ("now", "shown"),
    [
        ([MORE, AYE], [False, False, True, True]),
        ([HI, AYE], [True, False, False, True]),
        ([], [False, False, False, False]),
    ],
    ids=["it lost its beginning", "it was changed", "it was emptied"],
)
def test_messages_that_left_the_history_leave_the_context(
    into: Import, now: list[Json], shown: list[bool]
) -> None:
    into.records(*CHAT, *step(5, "trim", now), *step(6, "prompt", [*now, {"role": "user", "content": "So?"}]))
    body = json.dumps(into.conversation.request("assistant").body)

    assert [words in body for words in ("Draw a loaf.", "Here.", "Another.", "Aye.")] == shown
    assert "So?" in body


def test_calls_results_pictures_and_a_system_prompt_are_what_they_are(into: Import) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "bake", "arguments": '{"n": 1}'}}
    history = [
        {"role": "system", "content": "You bake."},
        {"role": "user", "content": "https://example.com/loaf.png", "type": "image"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "baked"},
    ]
    into.records(*step(0, "prompt", history, field="messages"))
    events: list[Any] = into.said
    picture, answer, result = events

    assert [type(event) for event in (picture, answer, result)] == [UserMessage, AssistantMessage, ToolResult]
    assert isinstance(picture.parts[0], ImagePart)
    assert answer.tool_calls[0].arguments == '{"n": 1}'
    assert (result.name, result.text) == ("bake", "baked")
    assert into.conversation.settings().card_of("assistant").persona == "You bake."


def test_a_history_of_texts_with_a_name_before_each_is_one_too(into: Import) -> None:
    into.records(*step(0, "converse", ["Human: What bread?", "AI: Rye."]))

    assert [(type(event), getattr(event, "text", "")) for event in into.said] == [
        (UserMessage, "What bread?"),
        (AssistantMessage, "Rye."),
    ]


def test_an_application_without_a_chat_says_nothing_and_odd_values_break_nothing(into: Import) -> None:
    records = step(0, "count", [1, 2], field="numbers")
    records += [{"type": "end_entry", "action": 3, "sequence_id": [], "state": 4, "exception": 5}]
    records += [{"type": "begin_entry", "action": "a", "sequence_id": {}, "inputs": 7}]
    into.records(*records)

    (found,) = into.report.conversations
    assert (found.appended, found.failed, found.ignored["step without a message"]) == (0, "", 2)
