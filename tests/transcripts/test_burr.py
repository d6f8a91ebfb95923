"""Logs of Burr's tracking: the chat history in the state, step by step."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.transcripts.given import Import, Json

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
