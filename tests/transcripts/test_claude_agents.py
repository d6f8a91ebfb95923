"""Sub-agents of a Claude Code session, and what a person types while it is busy."""

from __future__ import annotations

from typing import Any

import pytest

from stenolog import AssistantMessage, Entry, Event, LlmError, ToolResult, UserMessage
from stenolog.events import CallRef, Unknown
from stenolog.requests import build, lanes
from tests.requests.corpus import TRANSCRIPTS, conversations, files
from tests.transcripts.given import (
    SESSION,
    Import,
    Json,
    assistant,
    record,
    text,
    tool_result,
    tool_use,
    user,
)

STARTED = [
    user("u1", None, "Find it"),
    assistant("a1", "u1", tool_use("t1", "Task", subagent_type="Explore", prompt="Look")),
]


def meta_of(event: Event) -> dict[str, Any]:
    """Return the application's own data of an event that this release knows."""
    assert not isinstance(event, Unknown)
    return event.meta


def progress(uuid: str, message: Json, *before: Json) -> Json:
    """Return a sub-agent's progress record, as its session writes it while it runs."""
    data = {
        "type": "agent_progress",
        "agentId": "abcdef1234567",
        "message": message,
        "normalizedMessages": [*before, message],
    }
    return record("progress", uuid, "a1", data=data, parentToolUseID="t1")


def queue(operation: str, **fields: str) -> Json:
    return {"type": "queue-operation", "operation": operation, "sessionId": SESSION, **fields}


def users(into: Import) -> list[tuple[str, str, bool]]:
    """Return author and words of each message, and whether the model sees it."""
    return [(m.author_kind, m.text, m.in_context) for m in into.said if isinstance(m, UserMessage)]


def test_a_sub_agent_is_an_agent_of_its_own_named_by_its_type_and_id(into: Import) -> None:
    prompt = user("s1", None, "Look")
    said = assistant("s2", "s1", text("I look"))
    call = assistant("s3", "s2", tool_use("t9", "Read"), id="msg_s2")
    into.records(
        *STARTED,
        progress("p1", prompt),
        progress("p2", call, said),
        progress("p3", user("s4", "s3", [tool_result("t9", "found")]), said, call),
        user("r1", "a1", [tool_result("t1", "It is there")]),
    )

    name = "Explore-abcdef12"
    briefing, answer, found, result = into.said[2:]
    assert isinstance(briefing, UserMessage)
    assert (briefing.author, briefing.author_kind, briefing.to) == ("claude", "agent", (name,))
    assert isinstance(answer, AssistantMessage)
    assert (answer.agent, answer.text, [call.name for call in answer.tool_calls]) == (
        name,
        "I look",
        ["Read"],
    )
    assert isinstance(found, ToolResult)
    assert found.call == CallRef(entry="s2", index=0)
    assert isinstance(result, ToolResult)
    assert result.call == CallRef(entry="a1", index=0)


def test_the_main_agent_sees_what_its_call_gave_and_not_how(into: Import) -> None:
    into.records(
        *STARTED,
        progress("p1", user("s1", None, "Look")),
        progress("p2", assistant("s2", "s1", text("A secret thought"))),
        user("r1", "a1", [tool_result("t1", "It is there")]),
    )

    body = str(build(into.entries, "claude").body)
    assert "It is there" in body
    assert "secret" not in body


def test_a_side_chain_without_an_id_is_named_by_its_root(into: Import) -> None:
    into.records(
        user("1234567890", None, "Look", isSidechain=True),
        assistant("s2", "1234567890", text("I look"), isSidechain=True),
        user("other-root", None, "You too", isSidechain=True),
    )

    assert [m.to for m in into.said if isinstance(m, UserMessage)] == [
        ("agent-12345678",),
        ("agent-other-ro",),
    ]


def test_what_waits_in_the_queue_is_kept_though_it_is_never_delivered(into: Import) -> None:
    into.records(user("u1", None, "Go"), queue("enqueue", content="and hurry"))

    assert users(into) == [("person", "Go", True), ("person", "and hurry", False)]


def test_what_is_taken_out_of_the_queue_in_the_middle_of_a_turn_is_shown_to_the_agent(into: Import) -> None:
    into.records(user("u1", None, "Go"), queue("enqueue", content="and hurry"), queue("remove"))

    assert users(into)[1:] == [("person", "and hurry", False), ("person", "and hurry", True)]
    assert meta_of(into.said[-1]) == {"claude-code": {"queued": "#2"}}


def test_the_echo_of_what_was_delivered_is_not_said_again(into: Import) -> None:
    into.records(
        user("u1", None, "Go"),
        queue("enqueue", content="and hurry"),
        queue("remove"),
        record("attachment", "x1", "u1", attachment={"type": "queued_command", "prompt": "and hurry"}),
    )

    assert [words for _, words, in_context in users(into) if in_context] == ["Go", "and hurry"]


def test_the_same_words_typed_again_are_said_again(into: Import) -> None:
    into.records(
        user("u1", None, "Go"), queue("enqueue", content="on"), queue("remove"), user("u2", "u1", "on")
    )

    assert [words for _, words, in_context in users(into) if in_context] == ["Go", "on", "on"]


def test_a_queued_prompt_that_becomes_a_record_is_linked_to_it(into: Import) -> None:
    into.records(
        user("u1", None, "Go"),
        queue("enqueue", content="on"),
        assistant("a1", "u1", text("Gone")),
        queue("dequeue"),
        user("u2", "a1", "on"),
    )

    assert [words for _, words, in_context in users(into) if in_context] == ["Go", "on"]
    assert meta_of(into.said[-1]) == {"claude-code": {"queued": "#2"}}


def test_what_background_tasks_report_is_the_systems(into: Import) -> None:
    into.records(
        user("u1", None, "Go"),
        queue("enqueue", content="<agent-notification>done</agent-notification>"),
        queue("enqueue", content='{"task_id":"b1"}'),
    )

    assert [kind for kind, _, _ in users(into)] == ["person", "system", "system"]


def test_attachments_with_text_were_shown_to_the_model_and_others_are_counted(into: Import) -> None:
    into.records(
        user("u1", None, "Go"),
        record("attachment", "x1", "u1", attachment={"type": "task_reminder", "content": "Mind the list"}),
        record("attachment", "x2", "x1", attachment={"type": "command_permissions", "allowedTools": []}),
    )

    assert users(into)[1:] == [("system", "Mind the list", True)]
    assert into.report.conversations[0].ignored["attachment/command_permissions"] == 1


def test_an_id_with_a_blank_in_it_names_a_sub_agent_all_the_same(into: Import) -> None:
    into.records(user("u1", None, "Look", isSidechain=True, agentId="abcdefg hij"))

    assert into.report.conversations[0].failed == ""
    assert [m.to for m in into.said if isinstance(m, UserMessage)] == [("agent-abcdefg",)]


def test_a_reset_of_the_main_agent_leaves_a_sub_agents_history_in_its_request(into: Import) -> None:
    into.records(
        *STARTED,
        progress("p1", user("s1", None, "Look")),
        progress("p2", assistant("s2", "s1", text("I look"))),
        user("r1", "a1", [tool_result("t1", "It is there")]),
        assistant("a2", "r1", text("Found it")),
        record("progress", "h1", None, data={"type": "hook_progress", "hookName": "SessionStart:clear"}),
        user("u9", "h1", "Something else"),
    )

    main, sub = (str(build(into.entries, agent).body) for agent in ("claude", "Explore-abcdef12"))

    assert ("Find it" in main, "Something else" in main) == (False, True)
    assert "I look" in sub
    reset = [switch for switch in into.settings if isinstance(switch.context_from, int)]
    assert [switch.agents for switch in reset] == [("claude",)]


def test_a_result_without_its_call_is_seen_by_the_agent_alone_in_whose_history_it_is(into: Import) -> None:
    into.records(
        user("u0", None, [tool_result("t0", "refused before")]),
        *STARTED,
        progress("p1", user("s1", None, "Look")),
        progress("p2", user("s2", "s1", [tool_result("t8", "of the sub-agent")])),
        progress("p3", assistant("s3", "s2", text("I look"))),
        user("u2", "a1", [tool_result("t7", "refused meanwhile")]),
        user("r1", "a1", [tool_result("t1", "It is there")]),
    )

    main, sub = (str(build(into.entries, agent).body) for agent in ("claude", "Explore-abcdef12"))

    words = ("refused before", "of the sub-agent", "refused meanwhile")
    assert [each in main for each in words] == [True, False, True]
    assert [each in sub for each in words] == [False, True, False]


@pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="the recorded sessions are not beside this checkout")
def test_no_sub_agent_of_any_recorded_session_is_shown_more_than_it_was_given() -> None:
    sub_agents = 0
    for file in files("claude_code", "claude_code_fixtures"):
        for talk in conversations(file):
            subs = [lane for lane in lanes(talk.entries) if lane.agent != "claude"]
            sub_agents += len(subs)
            for lane in subs:
                request = build(talk.entries, lane.agent, blobs=talk.blobs)
                shown = {position for part in request.parts for position in part.positions}
                given = given_to(lane.agent, talk.entries)
                assert shown <= given, (file.name, talk.name, lane.agent, sorted(shown - given))
    assert sub_agents


def given_to(agent: str, entries: list[Entry]) -> set[int]:
    """Return the positions of what names an agent, what it said, and the results of its own calls."""
    own: dict[str, int] = {}
    given = set[int]()
    for entry in entries:
        match entry.event:
            case AssistantMessage(agent=speaker) | LlmError(agent=speaker) if speaker == agent:
                own[entry.id] = entry.position
                given.add(entry.position)
            case ToolResult(call=CallRef(entry=called)) if called in own:
                given.add(entry.position)
            case UserMessage(to=to) | ToolResult(call=None, to=to) if agent in to:
                given.add(entry.position)
            case _:
                pass
    return given
