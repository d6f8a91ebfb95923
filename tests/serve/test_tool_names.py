"""Tools under names that providers refuse: programs in other languages are asked for them by their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stenolog
from tests.serve.test_runner import Caller, chat

TOOL = {"name": "fs.read", "description": "Read.", "parameters": {"type": "object", "properties": {}}}


@pytest.fixture
def call(tmp_path: Path) -> Iterator[Caller]:
    with stenolog.open(tmp_path / "talks.db") as log:
        caller = Caller(log)
        caller("join", agent="coder", model="gpt-5.2", tools=[TOOL])
        event = {"text": "Read it.", "to": ["coder"]}
        caller("append", events=[{"kind": "user_message", "event": event}])
        yield caller
        caller.service.close()


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return an answer that calls the tool by the name that was sent."""
    made = chat(calls=("c1",))
    [sent] = request["body"]["tools"]
    made["choices"][0]["message"]["tool_calls"][0]["function"]["name"] = sent["function"]["name"]
    return made


def test_a_claimed_call_has_the_name_on_the_card(call: Caller) -> None:
    [work] = call.claim()
    call("settle", fence=work["fence"], outcome={"response": answer(work["request"])})
    [tool] = call.claim()
    assert tool["call"]["name"] == "fs.read"


def test_so_has_the_answer_in_a_loop_of_ones_own(call: Caller) -> None:
    request = call("request", agent="coder")
    written = call("answer", agent="coder", receipt=request["receipt"], outcome={"response": answer(request)})
    [part] = written["entries"][0]["event"]["parts"]
    assert part["name"] == "fs.read"
