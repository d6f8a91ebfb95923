"""CrewAgent's conversations: what becomes of their messages, old and new, and of what is broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stenolog import (
    AgentCard,
    AssistantMessage,
    Event,
    LlmError,
    ModeSwitch,
    TextPart,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.adapters.importers.intake import known_files
from stenolog.domain.events import UNCHANGED, Known
from stenolog.events import Origin, WorkflowRun
from stenolog.importers import import_file, recognise
from tests.requests.judging import refused
from tests.transcripts.crewagent_given import Message, call, folder, imported, index, keep, message
from tests.transcripts.given import Import
from tests.transcripts.soundness import assert_sound

A_TURN = [
    message("m1", "user", "Read it."),
    message("m2", "assistant", None, "tool_call", tool_calls=[call()], mode="agent"),
    message("m3", "tool", "import os", "tool_result", tool_call_id="c1", name="read", mode="agent"),
    message("m4", "assistant", "It imports os.", mode="agent"),
]
OLD_TURN = [
    {"role": "system", "content": "You are the architect."},
    {"role": "user", "content": "Read it."},
    {
        "role": "assistant",
        "content": "",
        "toolCalls": [{"id": "c1", "name": "read", "arguments": {"path": 1}}],
    },
    {"role": "tool", "toolCallId": "c1", "content": "import os"},
    {"role": "assistant", "content": "It imports os."},
]


def said(into: Import, place: Path, *messages: Any, **about: Any) -> list[Event]:
    """Return the events of the messages, without settings of none; `about` is for the index."""
    made = folder(place, talk=list(messages))
    if about:
        index(made, [{"id": "talk", **about}])
    into.report = imported(into.log, made)
    return [entry.event for entry in into.entries if not _is_settings(entry.event)]


def _is_settings(event: Event) -> bool:
    source = getattr(event, "source", None)
    return isinstance(source, Origin) and source.role == "settings"


def one(into: Import, place: Path, told: Message) -> Known:
    """Return the event of one message."""
    (event,) = said(into, place, told)
    assert isinstance(event, UserMessage | AssistantMessage | ToolResult | LlmError | ModeSwitch)
    return event


# What a folder holds


def test_a_folder_gives_each_conversation_under_its_id_in_the_order_of_the_index(
    into: Import, tmp_path: Path
) -> None:
    made = folder(tmp_path, b=A_TURN, a=A_TURN)

    into.report = imported(into.log, made)

    assert list(into.log) == ["b", "a"]
    assert (into.report.format, into.report.file) == ("crewagent", str(made))
    assert into.log["b"].settings().title == "B"
    assert_sound(into.log)


@pytest.mark.parametrize("given", ["", "conversations", "conversations/index.json"])
def test_the_folder_its_parent_and_its_index_mean_the_same(into: Import, tmp_path: Path, given: str) -> None:
    folder(tmp_path, talk=A_TURN)

    into.report = imported(into.log, tmp_path / given)

    assert [event.kind for event in into.said] == [
        "user_message",
        "assistant_message",
        "tool_result",
        "assistant_message",
    ]


def test_one_file_of_messages_is_known_by_what_is_in_them(into: Import, tmp_path: Path) -> None:
    made = folder(tmp_path, talk=A_TURN)

    assert recognise(made / "talk" / "messages.json") == "crewagent"
    assert import_file(into.log, made / "talk" / "messages.json", name="one").conversations[0].appended == 6


def test_an_index_may_be_a_bare_list_and_a_conversation_may_be_missing_from_it(
    into: Import, tmp_path: Path
) -> None:
    made = folder(tmp_path, listed=A_TURN, beside=A_TURN)
    index(made, [{"id": "listed", "title": "In it"}])

    imported(into.log, made)

    assert [(name, into.log[name].settings().title) for name in into.log] == [
        ("listed", "In it"),
        ("beside", ""),
    ]


def test_an_index_that_is_another_kind_of_file_is_read_as_what_it_is(into: Import, tmp_path: Path) -> None:
    index(tmp_path, [{"role": "user", "content": "Hi"}])

    assert import_file(into.log, tmp_path / "index.json").format == "openai-chat"


# Messages


def test_a_turn_is_kept_with_its_call_its_run_and_its_mode(into: Import, tmp_path: Path) -> None:
    tagged = [{**each, "runId": "r1", "nodeId": "n2"} for each in A_TURN]

    events = said(into, tmp_path, *tagged)

    assert [(e.kind, e.run, e.node) for e in events if not isinstance(e, ModeSwitch)] == [  # type: ignore[union-attr]
        ("user_message", "r1", "n2"),
        ("assistant_message", "r1", "n2"),
        ("tool_result", "r1", "n2"),
        ("assistant_message", "r1", "n2"),
    ]
    assert [switch.mode for switch in into.settings] == ["chat", "agent"]
    assert [(e.id, e.time.isoformat()) for e in into.entries][1] == ("m1", "2026-01-02T03:04:05.678000+00:00")
    request = into.conversation.request("assistant", into.conversation.position - 1)
    assert request.body["messages"] == [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": None, "tool_calls": [call()]},
        {"role": "tool", "tool_call_id": "c1", "content": "import os"},
    ]
    assert refused("openai-chat", request.body) == []


def test_old_messages_without_the_new_fields_are_read_too(into: Import, tmp_path: Path) -> None:
    events = said(into, tmp_path, *OLD_TURN, createdAt="2025-05-05T05:05:05Z", mode="agent")

    persona, asked, called, result, answer = events
    assert isinstance(persona, ModeSwitch)
    assert persona.cards == {"assistant": AgentCard(persona="You are the architect.")}
    assert isinstance(called, AssistantMessage)
    assert called.tool_calls == (ToolCall(id="c1", name="read", arguments='{"path":1}'),)
    assert isinstance(result, ToolResult)
    assert (result.call_id, result.text, result.in_context) == ("c1", "import os", True)
    assert [getattr(event, "text", "") for event in (asked, answer)] == ["Read it.", "It imports os."]
    assert into.conversation.settings().mode == "agent"
    assert {entry.time.isoformat() for entry in into.entries} == {"2025-05-05T05:05:05+00:00"}
    assert_sound(into.log)


def test_the_stored_system_prompt_is_the_persona_and_in_no_timeline(into: Import, tmp_path: Path) -> None:
    said(into, tmp_path, *OLD_TURN)

    assert into.conversation.settings().cards["assistant"].persona == "You are the architect."
    assert [item.text for item in into.conversation.timeline() if "architect" in item.text] == []
    assert into.conversation.request("assistant").body["messages"][0] == {
        "role": "system",
        "content": "You are the architect.",
    }


def test_a_later_system_message_is_said_by_the_system(into: Import, tmp_path: Path) -> None:
    event = said(into, tmp_path, OLD_TURN[0], {"role": "system", "content": "The disk is full."})[1]

    assert isinstance(event, UserMessage)
    assert (event.text, event.author_kind, event.in_context) == ("The disk is full.", "system", True)


SNAKE = {
    "include_in_context": False,
    "part_type": "text",
    "run_id": "r1",
    "created_at": "2026-01-02T03:04:05Z",
}


def test_either_spelling_is_understood(into: Import, tmp_path: Path) -> None:
    event = one(into, tmp_path, {"role": "user", "content": "Hi", **SNAKE})

    assert (event.in_context, event.run) == (False, "r1")
    assert into.entries[1].time.isoformat() == "2026-01-02T03:04:05+00:00"


@pytest.mark.parametrize("time", [1767323045.678, 1767323045678, "2026-01-02T03:04:05.678Z"])
def test_times_are_text_or_seconds_or_milliseconds(into: Import, tmp_path: Path, time: object) -> None:
    one(into, tmp_path, {"role": "user", "content": "Hi", "timestamp": time})

    assert into.entries[1].time.isoformat() == "2026-01-02T03:04:05.678000+00:00"


def test_a_widget_and_whatever_nobody_knows_is_kept_as_meta(into: Import, tmp_path: Path) -> None:
    chart = {"type": "chart", "data": [1, 2.5, None]}
    told = message("w1", "assistant", None, "widget", includeInContext=False, widget=chart, collapsed=True)

    event = one(into, tmp_path, told)

    assert (event.in_context, event.meta) == (
        False,
        {"crewagent": {"partType": "widget", "widget": chart, "collapsed": True}},
    )


def test_what_is_for_the_screen_is_in_no_request(into: Import, tmp_path: Path) -> None:
    aside = [
        message("w1", "assistant", "a widget", "widget", includeInContext=False),
        {"role": "assistant", "content": "an old widget", "partType": "widget"},
        message("t1", "user", "hidden", includeInContext=False),
    ]

    said(into, tmp_path, *aside, message("m1", "user", "Hi"))

    request = into.conversation.request("assistant")
    assert [m["content"] for m in request.body["messages"]] == ["Hi"]
    assert [(run.first, run.last, run.rule) for run in request.omissions] == [(2, 4, "not-in-context")]


def test_an_index_that_leaves_tool_results_out_of_context_is_obeyed(into: Import, tmp_path: Path) -> None:
    events = said(into, tmp_path, *A_TURN, includeToolResultsInContext=False)

    assert [e.in_context for e in events if isinstance(e, ToolResult)] == [False]
    assert (
        "import os"
        not in into.conversation.request("assistant", into.conversation.position - 1).bytes.decode()
    )


@pytest.mark.parametrize(
    ("told", "category", "words", "partial"),
    [
        (
            {"error": {"category": "timeout", "message": "60 s"}, "content": "It im"},
            "timeout",
            "60 s",
            "It im",
        ),
        ({"error": "Request timed out", "content": "It im"}, "timeout", "Request timed out", "It im"),
        ({"content": "429 too many requests"}, "rate_limited", "429 too many requests", ""),
        ({"error": {"message": "no idea"}, "content": None}, "other", "no idea", ""),
    ],
)
def test_a_failed_call_is_an_llm_error_with_what_had_arrived(
    into: Import, tmp_path: Path, told: Message, category: str, words: str, partial: str
) -> None:
    event = one(into, tmp_path, {"role": "assistant", "partType": "llm_error", **told})

    assert isinstance(event, LlmError)
    assert (event.category, event.message, event.text) == (category, words, partial)


def test_a_message_that_switches_the_mode_is_a_mode_switch(into: Import, tmp_path: Path) -> None:
    switch = message("s1", "system", "Now in run mode", "mode_switch", mode="run", includeInContext=False)

    events = said(into, tmp_path, A_TURN[0], switch, message("m2", "user", "Go", mode="run"))

    assert [event.kind for event in events] == ["user_message", "mode_switch", "user_message"]
    assert into.conversation.settings().mode == "run"
    assert len(into.entries) == 4  # the message behind it needs no other switch


def test_a_message_of_a_run_begins_it_and_one_of_another_mode_ends_it(into: Import, tmp_path: Path) -> None:
    begin = message("m1", "user", "Go", mode="run", runId="r1", nodeId="n1")

    said(into, tmp_path, A_TURN[0] | {"id": "m0"}, begin, message("m2", "user", "Thanks"))

    assert [switch.active_run for switch in into.settings] == [
        UNCHANGED,
        WorkflowRun(id="r1", node="n1"),
        None,
    ]


def test_a_large_result_is_kept_whole_behind_a_preview(into: Import, tmp_path: Path) -> None:
    large = "line\n" * 20_000
    result = message("t1", "tool", large, "tool_result", tool_call_id="c1")

    events = said(into, tmp_path, A_TURN[0], {**A_TURN[1], "mode": "chat"}, result)

    kept = events[-1]
    assert isinstance(kept, ToolResult)
    assert len(kept.text) < 2_000
    assert into.conversation.outputs["@state/logs/tool-results/t1.json"] == large


def test_a_role_that_nobody_knows_is_kept_out_of_context(into: Import, tmp_path: Path) -> None:
    event = one(into, tmp_path, message("x", "critic", "Hm"))

    assert isinstance(event, UserMessage)
    assert (event.author_kind, event.in_context, event.parts) == ("system", False, (TextPart(text="Hm"),))
    assert event.meta["crewagent"] == {"role": "critic", "includeInContext": True}


def test_two_messages_with_one_id_are_two_entries(into: Import, tmp_path: Path) -> None:
    said(into, tmp_path, message("m1", "user", "One"), message("m1", "user", "Two"), message("", "user", "3"))

    assert [entry.id for entry in into.entries] == ["m1:settings", "m1", "#2", "#3"]


# Again


def test_a_folder_that_has_grown_adds_what_is_new_and_nothing_else(into: Import, tmp_path: Path) -> None:
    made = folder(tmp_path, talk=A_TURN[:2])
    imported(into.log, made)
    keep(made, "talk", A_TURN)

    again = imported(into.log, made).conversations[0]
    third = imported(into.log, made).conversations[0]

    assert (again.appended, again.already) == (2, 4)
    assert (third.appended, third.already) == (0, 6)


@pytest.mark.parametrize("cut", range(len(A_TURN) + 1))
def test_it_is_the_same_log_wherever_the_import_was_interrupted(
    into: Import, tmp_path: Path, cut: int
) -> None:
    imported(into.log, folder(tmp_path / "once", talk=A_TURN), name="once")
    made = folder(tmp_path / "twice", talk=A_TURN[:cut])
    imported(into.log, made, name="twice")
    keep(made, "talk", A_TURN)
    imported(into.log, made, name="twice")

    once, twice = ([(e.id, e.time, e.event) for e in into.log[n].entries()] for n in ("once", "twice"))
    assert once == twice


def test_the_files_themselves_are_kept_where_that_is_wanted(into: Import, tmp_path: Path) -> None:
    made = folder(tmp_path, talk=A_TURN)

    imported(into.log, made, keep_raw=True)

    (piece,) = known_files.file_pieces(into.log["talk"].entries())
    assert json.loads(into.log.blobs[piece.blob]) == A_TURN
