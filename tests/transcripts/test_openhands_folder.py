"""Folders of events of OpenHands, of both versions, with sub-agents below."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stenolog import AssistantMessage, ModeSwitch, UserMessage
from stenolog.importers import files_in, import_file
from tests.transcripts.given import Import, Json
from tests.transcripts.openhands_given import ONE, act, answered, asked, observed


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


def test_sub_agents_are_lanes_of_their_own_whose_brief_names_the_call(into: Import, tmp_path: Path) -> None:
    delegate = act("e2", "c1", "r1", "I ask.")
    delegate["tool_call"]["arguments"] = json.dumps({"command": "delegate", "tasks": {"a": "Count to 3."}})
    there = folder(
        tmp_path, "main", asked("e1", "Build it."), delegate, observed("e3", "c1", "e2", "1, 2, 3")
    )
    folder(
        there / "subagents",
        "abc",
        asked("e1", "Count to 3."),
        answered("e2", "One, two, three."),
        model="m-2",
    )
    report = import_file(into.log, there)
    events = [entry.event for entry in into.log["main"]]
    brief = next(event for event in events if isinstance(event, UserMessage) and event.author_kind == "agent")
    call = next(entry for entry in into.log["main"] if isinstance(entry.event, AssistantMessage))

    assert (brief.to, brief.author, brief.cause) == (("sub-agent-abc",), "openhands", call.position)
    assert ("sub-agent-abc", "One, two, three.") in [
        (event.agent, event.text) for event in events if isinstance(event, AssistantMessage)
    ]
    assert into.log["main"].settings().card_of("sub-agent-abc").model == "m-2"
    assert "One, two, three." not in str(into.log["main"].request("openhands", api="plain").body)
    assert report.conversations[0].failed == ""


def test_a_folder_of_v0_has_its_title_and_reports_a_broken_file(into: Import, tmp_path: Path) -> None:
    there = tmp_path / "v0"
    (there / "events").mkdir(parents=True)
    about = {
        "conversation_id": "c-1",
        "title": "The shop",
        "selected_repository": "a/b",
        "selected_branch": "main",
    }
    (there / "metadata.json").write_text(json.dumps(about))
    hi = {"id": 2, "source": "user", "action": "message", "args": {"content": "Hi"}}
    (there / "events" / "2.json").write_text(json.dumps(hi))
    (there / "events" / "10.json").write_text(json.dumps({**hi, "id": 10, "source": "agent"}))
    (there / "events" / "11.json").write_text("{")
    report = import_file(into.log, there)
    conversation = into.log["c-1"]

    assert conversation.settings().title == "The shop"
    assert [entry.event.kind for entry in conversation] == [
        "mode_switch",
        "user_message",
        "assistant_message",
    ]
    assert [(skipped.line, skipped.unit) for skipped in report.skipped] == [(3, "file")]
