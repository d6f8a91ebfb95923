"""CrewAgent's own schema, as its document has it: in without loss, and out again as the same files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.contrib.crewagent.export import export_crewagent
from tests.requests.judging import refused
from tests.transcripts.crewagent_given import Message, folder, imported, index, keep, read, told
from tests.transcripts.given import Import
from tests.transcripts.soundness import assert_sound

FAILED = "It reads the text as local\n\nLLM_ERROR\n- type: timeout\n- message: no token for 60 s"


def said(id: str, role: str, content: Any, **fields: Any) -> Message:
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
    said("m1", "user", "Where does the parser lose the zone?", mode="chat"),
    said("m2", "assistant", "In dates.py, I think.", mode="chat"),
    said("m3", "user", "Look.", **ARCHITECT),
    said("m4", "assistant", None, tool_calls=[CALL], **ARCHITECT),
    said(
        *("m5", "tool", "def parse(text): …"),
        **ARCHITECT,
        tool_call_id="c1",
        toolName="fs.read",
        duration=412,
        isCollapsed=True,
    ),
    said("m6", "assistant", FAILED, **ARCHITECT),
    said("m7", "user", "continue", **ARCHITECT),
    said("m8", "assistant", "time.", **ARCHITECT),
    said("m9", "assistant", "reading dates.py …", **ARCHITECT, isCollapsed=True, partType="progress"),
    said("m10", "user", "Fix it.", **RUN),
    said("m11", "assistant", "Fixed.", **RUN, agentId="coder"),
    said("m12", "assistant", "12 passed.", **RUN, agentId="tester"),
]
OLD = [
    {name: value for name, value in each.items() if name in ("id", "role", "content")} for each in TALK[:2]
]


def taken(into: Import, place: Path, messages: list[Message], **about: Any) -> Path:
    """Return the folder of a conversation that was imported; `about` is its `ConversationMetadata`."""
    made = folder(place, talk=messages)
    index(made, [{"id": "talk", "title": "Talk", **about}])
    imported(into.log, made)
    return made


def events(into: Import, kind: type[Any]) -> list[Any]:
    return [entry.event for entry in into.log["talk"].entries() if isinstance(entry.event, kind)]


def test_each_agent_id_is_an_agent_that_joins_and_answers_what_it_was_asked(
    into: Import, tmp_path: Path
) -> None:
    taken(into, tmp_path, TALK)

    assert into.log["talk"].state().members == ("assistant", "architect", "coder", "tester")
    agents = [(event.agent, event.text) for event in events(into, AssistantMessage)]
    assert agents[0] == ("assistant", "In dates.py, I think.")
    assert agents[2:] == [
        ("architect", "time."),
        ("architect", "reading dates.py …"),
        ("coder", "Fixed."),
        ("tester", "12 passed."),
    ]
    asked = [event.to for event in events(into, UserMessage)]
    assert asked == [("assistant",), ("architect",), ("architect",), ("coder",)]
    assert {lane.status for lane in into.log["talk"].state().lanes.values()} == {"idle"}
    assert_sound(into.log)


def test_an_agent_sees_its_own_words_as_its_own_and_those_of_others_as_theirs(
    into: Import, tmp_path: Path
) -> None:
    taken(into, tmp_path, TALK)

    sent = into.log["talk"].request("coder").body["messages"]

    assert [m["content"] for m in sent if m["role"] == "assistant"] == ["Fixed."]
    assert not refused("openai-chat", into.log["talk"].request("coder").body)


def test_a_tool_result_has_the_name_and_the_duration_of_its_tool(into: Import, tmp_path: Path) -> None:
    taken(into, tmp_path, TALK)

    (result,) = events(into, ToolResult)
    assert (result.name, result.duration_ms, result.in_context) == ("fs.read", 412, True)


@pytest.mark.parametrize(
    ("block", "category", "message"),
    [
        ("LLM_ERROR\n- type: timeout\n- message: no token for 60 s", "timeout", "no token for 60 s"),
        ('LLM_ERROR {"type": "network", "message": "reset"}', "network", "reset"),
        ("LLM_ERROR: 429 too many requests", "rate_limited", "429 too many requests"),
        ("LLM_ERROR\ncode: timeout\nmessage: two\n  lines", "timeout", "two\nlines"),
    ],
)
def test_an_error_block_is_a_failed_call_with_what_had_streamed(
    into: Import, tmp_path: Path, block: str, category: str, message: str
) -> None:
    taken(into, tmp_path, [TALK[0], said("m2", "assistant", f"Half an\n\n{block}", mode="chat")])

    (failed,) = events(into, LlmError)
    assert (failed.text, failed.category, failed.message) == ("Half an", category, message)
    assert failed.in_context


def test_a_message_that_only_speaks_of_the_block_is_an_answer(into: Import, tmp_path: Path) -> None:
    taken(into, tmp_path, [TALK[0], said("m2", "assistant", "Look for LLM_ERROR in the log.")])

    assert [event.text for event in events(into, AssistantMessage)] == ["Look for LLM_ERROR in the log."]


def test_messages_without_a_mode_are_in_the_active_one(into: Import, tmp_path: Path) -> None:
    taken(into, tmp_path, OLD, activeType="agent")

    assert into.log["talk"].settings().mode == "agent"
    assert len(events(into, ModeSwitch)) == 1


def test_the_active_type_is_the_mode_though_no_message_was_written_in_it(
    into: Import, tmp_path: Path
) -> None:
    made = taken(into, tmp_path, TALK, activeType="chat")
    settings = into.log["talk"].settings()
    assert (settings.mode, settings.active_run) == ("chat", None)

    assert [each.appended for each in imported(into.log, made).conversations] == [0]
    index(made, [{"id": "talk", "activeType": "agent"}])
    imported(into.log, made)
    assert into.log["talk"].settings().mode == "agent"
    index(made, [{"id": "talk", "activeType": "chat"}])
    imported(into.log, made)
    assert into.log["talk"].settings().mode == "chat"


@pytest.mark.parametrize("is_included", [False, True])
def test_collapsed_events_are_for_the_screen_unless_the_setting_includes_them(
    into: Import, tmp_path: Path, is_included: bool
) -> None:
    taken(into, tmp_path, TALK, includeCollapsedUiEventsInContext=is_included)

    shown = into.log["talk"].request("architect").bytes.decode()
    assert ("reading dates.py" in shown) is is_included
    assert "def parse(text)" in shown


@pytest.mark.parametrize("about", [{}, {"activeType": "chat", "createdAt": "2026-03-02T09:00:00Z"}])
def test_what_was_imported_is_exported_as_the_same_files(
    into: Import, tmp_path: Path, about: dict[str, Any]
) -> None:
    made = taken(into, tmp_path / "in", TALK, **about)

    export_crewagent(into.log["talk"], tmp_path / "out")

    assert read(tmp_path / "out") == TALK
    assert json.loads((tmp_path / "out" / "index.json").read_text())["conversations"] == json.loads(
        (made / "index.json").read_text()
    )


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


def test_an_export_gives_another_log_the_same_entries_and_requests(into: Import, tmp_path: Path) -> None:
    taken(into, tmp_path / "in", TALK, activeType="chat")
    talk = into.log["talk"]
    talk.extend([UserMessage(text="So?", to=["coder"]), AssistantMessage(agent="coder", text="Done.")])
    export_crewagent(talk, tmp_path / "out")

    with stenolog.open(":memory:") as other:
        imported(other, tmp_path / "out")

        assert told(other["talk"])[1:] == told(talk)[1:]
        for agent in ("assistant", "architect", "coder", "tester"):
            assert other["talk"].request(agent).bytes == talk.request(agent).bytes


def test_an_agent_that_the_old_app_adds_later_joins_then(into: Import, tmp_path: Path) -> None:
    made = taken(into, tmp_path, TALK[:2])
    keep(made, "talk", TALK)

    imported(into.log, made)

    assert into.log["talk"].state().members == ("assistant", "architect", "coder", "tester")
    assert [each.appended for each in imported(into.log, made).conversations] == [0]
    assert_sound(into.log)


def test_a_call_that_was_cut_off_with_its_answer_is_not_open_and_continue_is_answered(
    into: Import, tmp_path: Path
) -> None:
    cut = {"id": "c9", "type": "function", "function": {"name": "write", "arguments": '{"pa'}}
    messages = [
        said("m1", "user", "Write it.", **ARCHITECT),
        said("m2", "assistant", FAILED, tool_calls=[cut], **ARCHITECT),
        said("m3", "user", "continue", **ARCHITECT),
    ]
    taken(into, tmp_path / "in", messages)

    [error] = events(into, LlmError)
    assert (error.text, error.category) == ("It reads the text as local", "timeout")
    assert into.log["talk"].state().open_calls() == ()
    into.log["talk"].join("architect", model="gpt-5.2")
    assert into.log["talk"].request("architect").sendable
    export_crewagent(into.log["talk"], tmp_path / "out")
    assert read(tmp_path / "out")[:3] == messages
