"""From a sub-agent's call back to the words of a person, by what the file tells of who ran the sub-agent."""

from __future__ import annotations

import pytest

from stenolog import AssistantMessage, Conversation, LlmError, UserMessage
from stenolog.analysis import blame
from tests.transcripts.given import (
    SESSION,
    Import,
    Json,
    assistant,
    lines,
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
ENDED = user("u2", "a1", [tool_result("t1", "It is there")], toolUseResult={"agentId": "abcdef12"})
OWN: list[Json] = [
    user("s1", None, "Look", isSidechain=True, agentId="abcdef12"),
    assistant("s2", "s1", tool_use("t9", "Read"), isSidechain=True, agentId="abcdef12"),
    user("s3", "s2", [tool_result("t9", "found")], isSidechain=True, agentId="abcdef12"),
    assistant("s4", "s3", tool_use("t8", "Bash"), isSidechain=True, agentId="abcdef12"),
]


def progress(uuid: str, message: Json) -> Json:
    data = {"type": "agent_progress", "agentId": "abcdef12", "message": message}
    return record("progress", uuid, "a1", data=data, parentToolUseID="t1")


def chain(conversation: Conversation, tool: str) -> list[str]:
    """Return the links of the chain from a tool's call, and the reason for its end."""
    entries = list(conversation.entries())
    at = next(
        entry.position
        for entry in entries
        if isinstance(entry.event, AssistantMessage)
        and any(call.name == tool for call in entry.event.tool_calls)
    )
    found = blame(entries, at)
    return [link.text for link in found.links] + ([found.gap] if found.gap else [])


def test_a_call_of_a_sub_agent_leads_through_its_brief_to_the_person(into: Import) -> None:
    into.records(*STARTED, *(progress(f"p{nth}", each) for nth, each in enumerate(OWN)), ENDED)

    task, look = '→ Task({"subagent_type":"Explore","prompt":"Look"})', "Look"
    assert chain(into.conversation, "Read") == ["→ Read({})", look, task, "Find it"]
    assert chain(into.conversation, "Bash") == ["→ Bash({})", "✓ found", "→ Read({})", look, task, "Find it"]


def test_a_side_chain_in_the_same_file_leads_to_the_call_with_its_words(into: Import) -> None:
    own = [{name: each for name, each in line.items() if name != "agentId"} for line in OWN]
    into.records(*STARTED, *own, ENDED)

    assert chain(into.conversation, "Read")[-1] == "Find it"


@pytest.mark.parametrize("brief", ["Look", "Other words than those of the call"])
def test_a_sub_agents_own_file_leads_to_the_call_that_its_result_names(into: Import, brief: str) -> None:
    into.records(*STARTED, ENDED, assistant("a2", "u2", text("There")))
    before = into.conversation.settings().cards["claude"]
    into.file(lines(user("s1", None, brief, isSidechain=True, agentId="abcdef12"), *OWN[1:]), "agent-x.jsonl")

    assert into.report.conversations[0].name == SESSION
    assert chain(into.conversation, "Bash")[-1] == "Find it"
    assert into.conversation.settings().cards["claude"] == before


def test_a_brief_that_nothing_in_the_file_leads_to_has_no_cause(into: Import) -> None:
    into.records(*OWN)

    (brief,) = [event for event in into.said if isinstance(event, UserMessage)]
    assert brief.cause is None
    assert chain(into.conversation, "Read")[-1] == (
        "position 2 is what claude gave agent-abcdef12; the log of claude-code does not tell by which call"
    )


def test_a_part_of_an_answer_that_comes_after_a_result_answers_what_the_first_part_did(into: Import) -> None:
    into.records(
        user("u1", None, "Go"),
        assistant("a1", "u1", tool_use("t1", "Read"), id="m1"),
        user("u2", "a1", [tool_result("t1")]),
        assistant("a2", "a1", tool_use("t2", "Bash"), id="m1"),
    )

    assert chain(into.conversation, "Bash") == ["→ Bash({})", "Go"]


def test_calls_that_may_have_given_a_brief_are_possible_the_latest_first(into: Import) -> None:
    more = assistant("a2", "u1", tool_use("t2", "Task", prompt="Other"), tool_use("t3", "Task"))
    words = user("s1", None, "Not the words of any call", isSidechain=True, agentId="abcdef12")
    into.records(*STARTED, more, words)

    found = blame(into.conversation.entries(), into.conversation.position)
    assert [(link.kind, link.text) for link in found.possible] == [
        ("assistant_message", '→ Task({"prompt":"Other"})'),
        ("assistant_message", "→ Task({})"),
        ("assistant_message", '→ Task({"subagent_type":"Explore","prompt":"Look"})'),
    ]


def test_a_chain_says_that_it_ends_at_a_note_or_at_a_summary(into: Import) -> None:
    into.records(
        user("u1", None, "Go"),
        user("u2", "u1", "Mind the list", isMeta=True),
        user("u3", None, "We went", isCompactSummary=True),
    )

    gaps = [blame(into.conversation.entries(), at).gap for at in (3, 4)]
    assert gaps == [
        "position 3 is a note that claude-code put in; it names no cause",
        "position 4 is a summary of 2-3, which claude-code asked for; it names no cause",
    ]


def test_a_call_that_failed_or_was_interrupted_leads_to_its_question(into: Import) -> None:
    error = {"status": 529, "error": {"error": {"message": "Overloaded"}}}
    into.records(
        user("u1", None, "Go"),
        record("system", "e1", "u1", subtype="api_error", error=error),
        user("i1", "e1", "[Request interrupted by user]"),
    )

    entries = list(into.conversation.entries())
    found = [blame(entries, entry.position) for entry in entries if isinstance(entry.event, LlmError)]
    assert [(one.gap, one.links[-1].text) for one in found] == [("", "Go"), ("", "Go")]
