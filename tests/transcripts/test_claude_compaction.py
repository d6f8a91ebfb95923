"""Compactions of a Claude Code session: what leaves the request with them, while the log keeps it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stenolog import Conversation, ToolResult, UserMessage
from stenolog.analysis import explain
from tests.transcripts.given import (
    Import,
    Json,
    assistant,
    importing,
    record,
    text,
    tool_result,
    tool_use,
    user,
)

BOUNDARY = record("system", "b1", None, subtype="compact_boundary", logicalParentUuid="a1")
SUMMARY = user("u9", "b1", "What was done so far", isCompactSummary=True)


REWOUND = [
    user("u1", None, "Go"),
    assistant("a1", "u1", tool_use("t1", command="sleep")),
    user("u2", "a1", "Or rather"),
    assistant("a2", "u2", text("As you like")),
    {**BOUNDARY, "logicalParentUuid": "a2"},
    SUMMARY,
    user("u3", "u9", "And now?"),
    user("u4", "a1", "Another way"),
]


def emptied(parent: str, *ids: str) -> Json:
    about = {"trigger": "auto", "preTokens": 60_000, "tokensSaved": 21_000, "compactedToolIds": list(ids)}
    return record("system", "b1", parent, subtype="microcompact_boundary", microcompactMetadata=about)


def sent(conversation: Conversation) -> str:
    return str(conversation.request("claude", api="anthropic").body["messages"])


def test_a_call_that_was_open_at_a_compaction_leaves_the_request_with_it(into: Import) -> None:
    into.records(
        user("u1", None, "Go"),
        assistant("a1", "u1", tool_use("t1", command="sleep")),
        BOUNDARY,
        SUMMARY,
        assistant("a2", "u9", tool_use("t2", command="ls")),
        user("u3", "a2", [tool_result("t2", "a file")]),
    )

    request = into.conversation.request("claude", api="anthropic")
    assert request.sendable
    assert "What was done so far" in sent(into.conversation)
    assert "a file" in sent(into.conversation)
    assert "sleep" not in sent(into.conversation)
    assert "still running" not in sent(into.conversation)


def test_the_results_beside_an_open_call_leave_the_request_with_it(into: Import) -> None:
    into.records(
        user("u1", None, "Go"),
        assistant("a1", "u1", tool_use("t1", command="sleep"), tool_use("t2", command="ls")),
        user("u2", "a1", [tool_result("t2", "a file")]),
        BOUNDARY,
        SUMMARY,
        user("u3", "u9", "And now?"),
    )

    assert "a file" not in sent(into.conversation)
    assert "sleep" not in sent(into.conversation)


def test_a_prompt_from_before_a_compaction_has_the_open_call_again(into: Import) -> None:
    into.records(*REWOUND[:-1])
    assert "sleep" not in sent(into.conversation)

    into.records(*REWOUND, name="other")
    assert "What was done so far" not in sent(into.conversation)
    assert "sleep" in sent(into.conversation)


MICRO = [
    user("u1", None, "Go"),
    assistant("a1", "u1", tool_use("t1", command="cat big")),
    user("u2", "a1", [tool_result("t1", "BIG " * 20)]),
    assistant("a2", "u2", tool_use("t2", command="cat small")),
    user("u3", "a2", [tool_result("t2", "small")]),
    emptied("u3", "t1", "unknown"),
    assistant("a3", "b1", text("Next")),
]


def test_a_microcompaction_empties_the_results_that_it_names_from_there_on(into: Import) -> None:
    into.records(*MICRO)

    head = into.conversation.position
    before = str(into.conversation.request("claude", api="anthropic", at=head - 2).body)
    after = str(into.conversation.request("claude", api="anthropic").body)
    assert "BIG" in before
    assert "BIG" not in after
    assert "cat big" in after
    assert "small" in after


def test_the_log_keeps_what_a_microcompaction_empties_and_says_what_emptied_it(into: Import) -> None:
    into.records(*MICRO)

    (big, _) = [event for event in into.said if isinstance(event, ToolResult)]
    assert big.text == "BIG " * 20
    about: Any = into.settings[-1].meta["claude-code"]
    assert about["microcompact"]["compactedToolIds"] == ["t1", "unknown"]
    at = next(entry.position for entry in into.entries if entry.event == big)
    (lane,) = explain(into.entries, at).lanes
    assert [stretch.form.rules for stretch in lane.stretches] == [("result",), ("hidden",)]


def test_a_prompt_from_before_a_microcompaction_has_the_results_again(into: Import) -> None:
    into.records(*MICRO, user("u4", "a3", "More"), assistant("a4", "u4", text("Yes")), user("u5", "a3", "Or"))
    assert "BIG" not in sent(into.conversation)

    into.records(
        user("v1", None, "Go"),
        assistant("w1", "v1", tool_use("t1", command="cat big")),
        user("v2", "w1", [tool_result("t1", "BIG " * 20)]),
        user("v3", "w1", "Read on"),
        {**emptied("v3", "t1"), "uuid": "b7"},
        assistant("w3", "b7", text("Next")),
        user("v5", "w1", "Or rather"),
        name="other",
    )
    assert "BIG" in sent(into.conversation)


def test_an_import_again_adds_nothing_behind_a_compaction(into: Import) -> None:
    into.records(*MICRO)
    into.records(*MICRO, user("u4", "a3", "More"))

    assert into.report.conversations[0].appended == 1
    assert [e.text for e in into.said if isinstance(e, UserMessage)] == ["Go", "More"]


PARTLY = [
    user("u1", None, "Go"),
    assistant("a1", "u1", tool_use("t1", command="ls")),
    user("u2", "a1", [tool_result("t1", "a file")]),
    assistant("a2", "u2", text("There is a file")),
    user("u3", "a2", "And its size?"),
    assistant("a3", "u3", text("Large")),
]
LATER = [user("u9", "b1", "What was done so far", isCompactSummary=True), user("u4", "a3", "Thanks")]
SEGMENT = {"preservedSegment": {"headUuid": "u3", "anchorUuid": "u9", "tailUuid": "a3"}}
NAMED = {"preservedMessages": {"uuids": ["u3", "a3"]}}


def boundary(**compaction: Any) -> Json:
    return record("system", "b1", None, subtype="compact_boundary", compactMetadata=compaction)


@pytest.mark.parametrize("told", [SEGMENT, NAMED], ids=["segment", "messages"])
def test_messages_that_a_compaction_preserved_stand_behind_its_summary(into: Import, told: Json) -> None:
    into.records(*PARTLY, boundary(trigger="auto", **told), *LATER)

    words = sent(into.conversation)
    places = [words.index(each) for each in ("What was done", "And its size?", "Large", "Thanks")]
    assert places == sorted(places)
    assert "There is a file" not in words
    assert into.conversation.request("claude", api="anthropic").sendable


def test_a_call_is_preserved_with_the_result_that_is(into: Import) -> None:
    told = {"preservedSegment": {"headUuid": "u2", "anchorUuid": "u9", "tailUuid": "a3"}}
    into.records(*PARTLY, boundary(**told), *LATER)

    assert "ls" in sent(into.conversation)
    assert "a file" in sent(into.conversation)
    assert into.conversation.request("claude", api="anthropic").sendable


def test_messages_are_preserved_whether_a_file_comes_at_once_or_in_pieces(
    into: Import, tmp_path: Path
) -> None:
    whole = [*PARTLY, boundary(**SEGMENT), *LATER]
    for end in range(1, len(whole) + 1):
        into.records(*whole[:end])
    with importing(tmp_path) as at_once:
        at_once.records(*whole)

        assert sent(into.conversation) == sent(at_once.conversation)


@pytest.mark.parametrize("told", [{"preservedSegment": {"headUuid": "gone"}}, {"preservedMessages": 3}, {}])
def test_a_compaction_that_names_nothing_in_the_file_covers_all(into: Import, told: Json) -> None:
    into.records(*PARTLY, boundary(**told), *LATER)

    assert "And its size?" not in sent(into.conversation)
