"""Records of a Claude Code session whose uuids say nothing: blank ones, and one that all of them share."""

from __future__ import annotations

import pytest

from tests.transcripts.given import Import, Json, assistant, record, text, tool_result, tool_use, user
from tests.transcripts.soundness import words

ZERO = "00000000-0000-0000-0000-000000000000"


def from_sub_agent(uuid: str, message: Json, *before: Json) -> Json:
    told = {"message": message, "normalizedMessages": [*before, message]}
    data = {"type": "agent_progress", "agentId": "abcdef12", **told}
    return record("progress", uuid, "u1", data=data, parentToolUseID="t1")


@pytest.mark.parametrize("blank", ["", " ", "\t"])
def test_a_blank_uuid_of_a_sub_agents_record_costs_nothing_else(into: Import, blank: str) -> None:
    said = assistant(blank, None, text("I look"), id="m1")
    more = assistant(blank, None, text("I see"), id="m2")
    into.records(
        user("u1", None, "hello"),
        from_sub_agent("p1", said),
        from_sub_agent("p2", more, said),
        assistant("a2", "u1", text("world")),
    )

    assert into.report.conversations[0].failed == ""
    assert words(into) == ["hello", "I look", "I see", "world"]


@pytest.mark.parametrize("uuid", [ZERO, "", " "])
def test_records_that_share_a_uuid_are_all_taken_down(into: Import, uuid: str) -> None:
    into.records(
        user(uuid, None, "One"),
        assistant(uuid, uuid or None, text("Two"), tool_use("t1"), id="m1"),
        user(uuid, uuid or None, [tool_result("t1", "three")]),
        assistant(uuid, uuid or None, text("Four"), id="m2"),
        user(uuid, uuid or None, "Five"),
        user(uuid, uuid or None, "Five"),
    )

    assert words(into) == ["One", "Two", "three", "Four", "Five", "Five"]


def test_records_that_share_a_uuid_are_no_rewinds_of_each_other(into: Import) -> None:
    into.records(
        user(ZERO, None, "One"),
        assistant(ZERO, ZERO, text("Two"), id="m1"),
        user(ZERO, ZERO, "Three"),
        assistant(ZERO, ZERO, text("Four"), id="m2"),
        user(ZERO, ZERO, "Five"),
    )

    body = str(into.conversation.request("claude").body)
    assert [word for word in ("One", "Two", "Three", "Four", "Five") if word in body] == words(into)
    assert into.report.conversations[0].forks == []


def test_a_record_that_is_written_twice_is_taken_down_once(into: Import) -> None:
    into.records(
        user("u1", None, "One"), user("u1", None, "One"), assistant("a1", "u1", text("Two")), name="talk"
    )

    assert words(into) == ["One", "Two"]
    assert into.report.conversations[0].ignored["repeated record"] == 1


def test_an_import_again_of_records_that_share_a_uuid_adds_nothing(into: Import) -> None:
    file = [user(ZERO, None, "One"), assistant(ZERO, ZERO, text("Two")), user(ZERO, ZERO, "Three")]
    into.records(*file[:2])
    into.records(*file)
    into.records(*file, name="talk")

    assert into.report.conversations[0].appended in (0, 4)
    assert words(into) == ["One", "Two", "Three"]
