"""Conversations of CrewAgent: its turns, its documents, and what is broken in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import (
    AssistantMessage,
    Event,
    LlmError,
    ModeSwitch,
    ToolResult,
    UserMessage,
)
from stenolog.adapters.importers.intake import known_files
from stenolog.contrib.crewagent.export import export_crewagent
from stenolog.events import Origin
from stenolog.importers import Report, import_file
from tests.transcripts.crewagent_given import (
    Message,
    call,
    folder,
    imported,
    index,
    keep,
    message,
    read,
)
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


def test_a_large_result_is_kept_whole_behind_a_preview(into: Import, tmp_path: Path) -> None:
    large = "line\n" * 20_000
    result = message("t1", "tool", large, "tool_result", tool_call_id="c1")

    events = said(into, tmp_path, A_TURN[0], {**A_TURN[1], "mode": "chat"}, result)

    kept = events[-1]
    assert isinstance(kept, ToolResult)
    assert len(kept.text) < 2_000
    assert into.conversation.outputs["@state/logs/tool-results/t1.json"] == large


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


def reasons(report: Report) -> list[str]:
    """Return the report's complaints about the folder."""
    return [
        *(skipped.reason for skipped in report.skipped),
        *(skipped.reason for conversation in report.conversations for skipped in conversation.skipped),
        *(conversation.failed for conversation in report.conversations if conversation.failed),
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[{", "bad/messages.json: expected one JSON document; line 1, column 3"),
        ('[{"role": "user", "content": "cut o', "(is the file cut off?)"),
        ('"words"', "bad/messages.json: expected a list of messages, found str"),
        ("", "bad/messages.json: expected one JSON document"),
        (None, "expected bad/messages.json, found no such file"),
    ],
)
def test_a_broken_file_is_told_and_the_others_are_imported(
    into: Import, tmp_path: Path, content: str | None, reason: str
) -> None:
    made = folder(tmp_path, bad=content or "", good=A_TURN)
    if content is None:
        (made / "bad" / "messages.json").unlink()

    report = import_file(into.log, made)

    assert [reason in found for found in reasons(report)] == [True]
    assert list(into.log) == ["good"]


DEEP: Any = {}
for _ in range(95):
    DEEP = {"d": DEEP}


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("words", "expected an object, found str"),
        ({"content": "whose?"}, "expected a role, found null"),
        ({"role": "user", "content": "", "timestamp": "x", "deep": {"meta": DEEP}}, None),
        ({"role": "user", "content": "Hi", "stenolog": {"native": True, "blobs": {"x": "%"}}}, None),
    ],
)
def test_a_broken_message_is_told_and_the_others_are_imported(
    into: Import, tmp_path: Path, broken: Any, reason: str | None
) -> None:
    made = folder(tmp_path, talk=[A_TURN[0], broken, message("m9", "user", "Bye")])

    report = import_file(into.log, made)

    assert [(reason or "") in found for found in reasons(report)] == [True] * bool(reason)
    assert [getattr(e.event, "text", "") for e in into.log["talk"].entries()][-1] == "Bye"
    assert_sound(into.log)


FAILED = "It reads the text as local\n\nLLM_ERROR\n- type: timeout\n- message: no token for 60 s"


def said_crewagent_document(id: str, role: str, content: Any, **fields: Any) -> Message:
    """Return a message with the fields of `ConversationMessage`."""
    return {
        "id": id,
        "role": role,
        "createdAt": f"2026-03-02T09:{int(id[1:]):02}:00Z",
        "content": content,
    } | fields


CALL = {"id": "c1", "type": "function", "function": {"name": "fs.read", "arguments": '{"path": "dates.py"}'}}
ARCHITECT = {"mode": "agent", "agentId": "architect"}
RUN = {"mode": "run", "runId": "r1", "workflowId": "w1"}
TALK = [
    said_crewagent_document("m1", "user", "Where does the parser lose the zone?", mode="chat"),
    said_crewagent_document("m2", "assistant", "In dates.py, I think.", mode="chat"),
    said_crewagent_document("m3", "user", "Look.", **ARCHITECT),
    said_crewagent_document("m4", "assistant", None, tool_calls=[CALL], **ARCHITECT),
    said_crewagent_document(
        *("m5", "tool", "def parse(text): …"),
        **ARCHITECT,
        tool_call_id="c1",
        toolName="fs.read",
        duration=412,
        isCollapsed=True,
    ),
    said_crewagent_document("m6", "assistant", FAILED, **ARCHITECT),
    said_crewagent_document("m7", "user", "continue", **ARCHITECT),
    said_crewagent_document("m8", "assistant", "time.", **ARCHITECT),
    said_crewagent_document(
        "m9", "assistant", "reading dates.py …", **ARCHITECT, isCollapsed=True, partType="progress"
    ),
    said_crewagent_document("m10", "user", "Fix it.", **RUN),
    said_crewagent_document("m11", "assistant", "Fixed.", **RUN, agentId="coder"),
    said_crewagent_document("m12", "assistant", "12 passed.", **RUN, agentId="tester"),
]


def taken(into: Import, place: Path, messages: list[Message], **about: Any) -> Path:
    """Return the folder of a conversation that was imported; `about` is its `ConversationMetadata`."""
    made = folder(place, talk=messages)
    index(made, [{"id": "talk", "title": "Talk", **about}])
    imported(into.log, made)
    return made


def events(into: Import, kind: type[Any]) -> list[Any]:
    return [entry.event for entry in into.log["talk"].entries() if isinstance(entry.event, kind)]


def test_what_is_written_here_has_the_fields_that_the_old_app_reads(into: Import, tmp_path: Path) -> None:
    taken(into, tmp_path / "in", TALK, activeType="run")
    talk = into.log["talk"]
    talk.append(ModeSwitch(mode="agent"), expected=talk.position)
    talk.extend(
        [
            UserMessage(text="And now?", to=["coder"]),
            AssistantMessage(
                agent="coder", tool_calls=[stenolog.ToolCall(id="c2", name="run", arguments="{}")]
            ),
            ToolResult(call_id="c2", name="run", text="ok", duration_ms=7),
            LlmError(agent="coder", category="network", text="Half", message="reset\nby peer"),
        ]
    )

    export_crewagent(talk, tmp_path / "out")

    new = read(tmp_path / "out")[len(TALK) :]
    assert [m["mode"] for m in new] == ["agent"] * 5
    assert new[2]["agentId"] == "coder"
    assert (new[3]["toolName"], new[3]["duration"], new[3]["tool_call_id"]) == ("run", 7, "c2")
    assert new[4]["content"] == "Half\n\nLLM_ERROR\n- type: network\n- message: reset\n  by peer"
    assert all("createdAt" in m and "timestamp" not in m and "error" not in m for m in new)
    assert (
        json.loads((tmp_path / "out" / "index.json").read_text())["conversations"][0]["activeType"] == "agent"
    )


def test_a_call_that_was_cut_off_with_its_answer_is_not_open_and_continue_is_answered(
    into: Import, tmp_path: Path
) -> None:
    cut = {"id": "c9", "type": "function", "function": {"name": "write", "arguments": '{"pa'}}
    messages = [
        said_crewagent_document("m1", "user", "Write it.", **ARCHITECT),
        said_crewagent_document("m2", "assistant", FAILED, tool_calls=[cut], **ARCHITECT),
        said_crewagent_document("m3", "user", "continue", **ARCHITECT),
    ]
    taken(into, tmp_path / "in", messages)

    [error] = events(into, LlmError)
    assert (error.text, error.category) == ("It reads the text as local", "timeout")
    assert into.log["talk"].state().open_calls() == ()
    into.log["talk"].join("architect", model="gpt-5.2")
    assert into.log["talk"].request("architect").sendable
    export_crewagent(into.log["talk"], tmp_path / "out")
    assert read(tmp_path / "out")[:3] == messages
