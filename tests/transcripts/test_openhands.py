"""Events of OpenHands, of both versions, and its folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stenolog import ModeSwitch
from stenolog.errors import UnknownFormatError
from stenolog.importers import files_in, import_file, recognise
from tests.transcripts.acceptance import (
    assert_accepted,
)
from tests.transcripts.given import Import, Json
from tests.transcripts.openhands_given import ONE, answered, asked, event

AT = "2025-04-30T16:32:54.707474"


def action(id: int, kind: str, source: str = "agent", **fields: Any) -> Json:
    made: Json = {name: fields.pop(name) for name in ("tool_call_metadata", "llm_metrics") if name in fields}
    return {
        "id": id,
        "timestamp": AT,
        "source": source,
        "message": "",
        "action": kind,
        "args": fields,
        **made,
    }


def observation(id: int, kind: str, content: str, cause: int | None = None, **fields: Any) -> Json:
    base = {"id": id, "timestamp": AT, "source": "environment", "message": "", "observation": kind}
    return {**base, "content": content, "cause": cause, "extras": {}, **fields}


def metadata(response: str, call: str, *calls: str, content: str = "") -> Json:
    """Return what an action says of the model's response that it came of, and of its own call in it."""
    made = [
        {"id": id, "type": "function", "function": {"name": "run", "arguments": f'{{"command": "{id}"}}'}}
        for id in calls or (call,)
    ]
    message = {"role": "assistant", "content": content, "tool_calls": made}
    counted = {"prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 60}}
    answer = {"id": response, "model": "m-1", "usage": counted}
    return {
        "function_name": "run",
        "tool_call_id": call,
        "model_response": {**answer, "choices": [{"finish_reason": "tool_calls", "message": message}]},
        "total_calls_in_response": len(made),
    }


ASKED = action(1, "message", "user", content="Build it.")
BASE = [
    action(0, "system", content="P", tools=[{"type": "function", "function": {"name": "f"}}]),
    ASKED,
    action(2, "run", command="ls", tool_call_metadata=metadata("r1", "a")),
    observation(3, "run", "A", 2, tool_call_metadata=metadata("r1", "a"), extras={"metadata": {}}),
    action(4, "condensation", forgotten_event_ids=[2, 3], summary="S"),
    action(5, "delegate", agent="B", inputs={"task": "t"}),
    observation(6, "recall", "R", extras={"microagent_knowledge": [{"name": "n", "content": "c"}]}),
]


def test_what_is_no_conversation_of_openhands_is_refused_by_its_name() -> None:
    state = {"id": "1", "agent": {"llm": {}}, "workspace": {}, "execution_status": "idle"}
    about = {"conversation_id": "1", "selected_repository": None, "title": "t"}
    with pytest.raises(UnknownFormatError, match="found an OpenHands state"):
        recognise(json.dumps(state).encode())
    with pytest.raises(UnknownFormatError, match="found the metadata of an OpenHands conversation"):
        recognise(json.dumps(about).encode())


def folder(parent: Path, name: str, *events: Json, model: str = "m-1") -> Path:
    """Write the folder of a conversation."""
    there = parent / name
    (there / "events").mkdir(parents=True)
    state = {"id": name, "agent": {"llm": {"model": model}}, "workspace": {"working_dir": "/shop"}}
    (there / "base_state.json").write_text(json.dumps(state))
    for number, each in enumerate(events):
        (there / "events" / f"event-{number:05}-{number:08x}.json").write_text(json.dumps(each))
    return there


@pytest.mark.parametrize("inside", [".", "events"])
def test_a_folder_of_events_is_one_conversation_named_by_its_id(
    into: Import, tmp_path: Path, inside: str
) -> None:
    there = folder(tmp_path, "c0ffee", *ONE)
    report = import_file(into.log, there / inside)
    conversation = into.log["c0ffee"]
    into.records(*ONE, name="lines")

    assert (report.format, [found.failed for found in report.conversations]) == ("openhands", [""])
    events = (entry.event for entry in conversation)
    assert [event for event in events if not isinstance(event, ModeSwitch)] == into.said
    assert next(iter(conversation)).event.meta["openhands"] == {"cwd": "/shop", "id": "c0ffee"}  # type: ignore[union-attr]
    assert sum(found.appended for found in import_file(into.log, there).conversations) == 0


def test_a_folder_above_finds_each_conversation_as_one(tmp_path: Path) -> None:
    folder(tmp_path, "one", *ONE)
    folder(tmp_path, "two", *ONE)

    assert list(files_in(tmp_path)) == [tmp_path / "one", tmp_path / "two"]


def test_a_folder_that_has_grown_goes_on(into: Import, tmp_path: Path) -> None:
    there = folder(tmp_path, "grown", *ONE[:4])
    import_file(into.log, there)
    for number, each in enumerate(ONE[4:], 4):
        (there / "events" / f"event-{number:05}-{number:08x}.json").write_text(json.dumps(each))
    import_file(into.log, there)
    import_file(into.log, folder(tmp_path, "whole", *ONE))
    bodies = [into.log[name].request("openhands", api="anthropic").body for name in ("grown", "whole")]

    assert bodies[0] == bodies[1]


def test_a_condensation_is_a_summary_and_forgets_an_earlier_one_by_its_name(
    into: Import,
) -> None:
    def condensed(id: str, *forgotten: str, summary: str) -> Json:
        ids = {"forgotten_event_ids": list(forgotten), "summary": summary, "summary_offset": 1}
        return event("Condensation", id, "environment", llm_response_id="r9", **ids)

    records = [
        *ONE,
        condensed("k1", "e2", "e3", "e4", "e5", summary="Both were looked at."),
        asked("e12", "Go on."),
        answered("e13", "I do."),
        condensed("k2", "k1-summary", "e6", "e7", "e12", summary="All was looked at."),
        asked("e14", "And?"),
    ]
    into.records(*records)
    body = str(into.conversation.request("openhands", api="anthropic").body)

    assert [words in body for words in ("Build it.", "All was looked at.", "Done.", "And?")] == [True] * 4
    assert not any(words in body for words in ("a.txt", "Both were looked at.", "Not that.", "Go on."))
    assert into.report.conversations[0].decisions == {"condensation as a summary": 2}
    assert_accepted(into._folder / "talk.jsonl")
