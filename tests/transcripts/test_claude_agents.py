"""Sub-agents of a Claude Code session, and what a person types while it is busy."""

from __future__ import annotations

import pytest

from stenolog import AssistantMessage, Entry, LlmError, ToolResult, UserMessage
from stenolog.events import CallRef
from stenolog.requests import build, lanes
from tests.requests.corpus import TRANSCRIPTS, conversations, files
from tests.transcripts.given import (
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


def progress(uuid: str, message: Json, *before: Json) -> Json:
    """Return a sub-agent's progress record, as its session writes it while it runs."""
    data = {
        "type": "agent_progress",
        "agentId": "abcdef1234567",
        "message": message,
        "normalizedMessages": [*before, message],
    }
    return record("progress", uuid, "a1", data=data, parentToolUseID="t1")


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
