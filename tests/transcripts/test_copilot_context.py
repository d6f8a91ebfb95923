"""What a session of Copilot CLI shows whom: sub-agents, compactions, rewinds."""

from __future__ import annotations

import pytest

from stenolog import UserMessage
from tests.transcripts.copilot_given import answer, call, result, session, shown, user
from tests.transcripts.given import Import, Json


def sub_agent(lane: Json) -> list[Json]:
    """Return a session in which a sub-agent works, whose events name their lane in this way."""
    named = {"toolCallId": "call-00000001", "agentName": "explore", "agentDisplayName": "Explore"}
    inside, outside = ({}, lane) if "agentId" in lane else (lane, {})
    events = (answer("Found two.", **inside), answer("", call("c2", command="ls"), **inside))
    return session(
        user("Look."),
        answer("I ask.", call("call-00000001", "task", prompt="Find all tests.")),
        ("subagent.started", {**named, "model": "small-x"}, outside),
        (*user("Find all tests.", **inside), outside),
        *((*event, outside) for event in events),
        (*result("c2", "a.txt", **inside), outside),
        ("subagent.completed", named),
        result("call-00000001", "There are two."),
        answer("Two."),
    )


@pytest.mark.parametrize("lane", [{"parentToolCallId": "call-00000001"}, {"agentId": "agent-7"}])
def test_a_sub_agent_has_a_lane_of_its_own_begun_by_its_call(into: Import, lane: Json) -> None:
    into.records(*sub_agent(lane))
    name = next(each for each in into.conversation.settings().cards if each.startswith("explore-"))
    brief = next(event for event in into.said if getattr(event, "author_kind", "") == "agent")
    asked = next(e.position for e in into.entries if getattr(e.event, "text", "") == "I ask.")

    assert isinstance(brief, UserMessage)
    assert (brief.text, brief.author, brief.cause, brief.to) == ("Find all tests.", "copilot", asked, (name,))
    assert shown(into, "Found two.", "a.txt", "There are two.", "Two.") == [False, False, True, True]
    own = str(into.conversation.request(name, api="anthropic").body)
    assert [words in own for words in ("Find all tests.", "Found two.", "a.txt", "Look.")] == [
        True,
        True,
        True,
        False,
    ]


TALK = [user("First"), answer("One."), user("Second"), answer("Two.")]
ALL = ("First", "One.", "Second", "Two.", "Third")


def test_a_compaction_is_a_summary_of_what_came_before_it_began(into: Import) -> None:
    done = {"success": True, "summaryContent": "They counted."}
    into.records(
        *session(
            *TALK[:2],
            ("session.compaction_start", {}),
            *TALK[2:],
            ("session.compaction_complete", done),
            user("Third"),
        )
    )

    assert shown(into, *ALL, "They counted.") == [False, False, True, True, True, True]


def test_a_compaction_that_failed_covers_nothing(into: Import) -> None:
    into.records(
        *session(*TALK, ("session.compaction_complete", {"success": False, "error": "no"}), user("Third"))
    )

    assert shown(into, *ALL) == [True] * 5


def test_a_rewind_hides_what_was_removed_and_keeps_it_as_a_fork(into: Import) -> None:
    rewind = ("session.snapshot_rewind", {"upToEventId": "e3", "eventsRemoved": 2})
    into.records(*session(*TALK, rewind, user("Third")))

    assert shown(into, *ALL) == [True, True, False, False, True]
    assert [name for name in into.log if name.startswith("s-1~")]


def test_a_rewind_that_took_the_events_out_of_the_file_hides_them_too(into: Import) -> None:
    before = session(*TALK)
    into.records(*before)
    rewind: Json = {**before[0], "type": "session.snapshot_rewind", "id": "r1"}
    after = [*before[:3], {**rewind, "data": {"upToEventId": "e3"}}, {**before[1], "id": "u9"}]
    after[-1]["data"] = {"content": "Third"}
    into.records(*after)

    assert shown(into, *ALL) == [True, True, False, False, True]
    into.records(*after)
    assert into.report.conversations[0].appended == 0


def test_a_cleared_context_begins_anew(into: Import) -> None:
    into.records(*session(*TALK, ("session.context_cleared", {"messagesCleared": 4}), user("Third")))

    assert shown(into, *ALL) == [False, False, False, False, True]
