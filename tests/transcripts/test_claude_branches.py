"""Claude Code sessions are trees: prompts that leave something behind, and branches that are none."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from stenolog.events import PositionRange
from stenolog.requests import build
from tests.transcripts.given import (
    SESSION,
    Import,
    Json,
    assistant,
    importing,
    lines,
    record,
    text,
    tool_result,
    tool_use,
    user,
)

TALK: list[Json] = [
    user("u1", None, "One"),
    assistant("a1", "u1", text("First")),
    user("u2", "a1", "Two"),
    assistant("a2", "u2", text("Second")),
]
"""Positions: opening 1, One 2, card 3, First 4, Two 5, Second 6."""


def asked(into: Import) -> list[str]:
    """Return the users' messages and the answers that the model is sent, in order."""
    messages = build(into.entries, "claude", api="openai-chat").body["messages"]
    return [message["content"] for message in messages if message["role"] in ("user", "assistant")]


def test_a_prompt_below_an_earlier_turn_leaves_the_later_one_as_a_fork(into: Import) -> None:
    into.records(
        *TALK, user("u3", "a1", "Two, again"), assistant("a3", "u3", text("Third")), user("u4", "a3", "Go on")
    )

    assert asked(into) == ["One", "First", "Two, again", "Third", "Go on"]
    assert into.conversation.settings().hides == (PositionRange(first=5, last=6),)
    assert into.report.conversations[0].forks == [f"{SESSION}~6"]
    assert [entry.event for entry in into.log[f"{SESSION}~6"].entries(at=6)] == [
        entry.event for entry in into.entries[:6]
    ]


def test_the_first_prompt_can_be_taken_back_too(into: Import) -> None:
    into.records(*TALK, user("u3", None, "One, again"))

    assert asked(into) == ["One, again"]
    assert into.report.conversations[0].forks == [f"{SESSION}~6"]


def test_a_branch_that_was_left_can_be_returned_to(into: Import) -> None:
    into.records(
        *TALK,
        user("u3", "a1", "Two, again"),
        assistant("a3", "u3", text("Third")),
        user("u4", "a2", "Back again"),
    )

    assert asked(into) == ["One", "First", "Two", "Second", "Back again"]
    assert into.report.conversations[0].forks == [f"{SESSION}~6", f"{SESSION}~9"]


def test_a_rewind_within_a_rewind_hides_both(into: Import) -> None:
    into.records(*TALK, user("u3", "a1", "Two b"), user("u4", "a1", "Two c"))

    assert asked(into) == ["One", "First", "Two c"]
    assert into.conversation.settings().hides == (PositionRange(first=5, last=8),)


def test_parallel_results_and_blocks_and_progress_are_no_rewind(into: Import) -> None:
    into.records(
        user("u1", None, "One"),
        assistant("a1", "u1", tool_use("t1"), id="m1"),
        assistant("a2", "a1", tool_use("t2"), id="m1"),
        record("progress", "p1", "a1", data={"type": "bash_progress"}),
        user("r1", "a1", [tool_result("t1")]),
        user("r2", "a2", [tool_result("t2")]),
        record("system", "e1", "r1", subtype="api_error", error={"status": 529}),
        assistant("a3", "r1", text("Done")),
        user("u2", "p1", "Below a progress record of the same turn"),
    )

    assert into.report.conversations[0].forks == []
    assert into.conversation.settings().hides == ()


def test_a_local_command_leaves_nothing_behind(into: Import) -> None:
    into.records(
        *TALK,
        user("u3", "a2", "<command-name>/exit</command-name>"),
        user("u4", "u3", "<local-command-stdout>Bye</local-command-stdout>"),
        user("u5", "a2", "Back"),
    )

    assert into.report.conversations[0].forks == []


def test_a_prompt_whose_parent_is_elsewhere_goes_on_from_where_we_are(into: Import) -> None:
    into.records(*TALK, user("u3", "not in this file", "Three"))

    assert asked(into) == ["One", "First", "Two", "Second", "Three"]


def test_a_new_root_below_a_hook_begins_a_new_context(into: Import) -> None:
    into.records(
        *TALK,
        record("progress", "p1", None, data={"type": "hook_progress", "hookName": "SessionStart:clear"}),
        user("u3", "p1", "Implement the plan"),
    )

    assert asked(into) == ["Implement the plan"]
    assert into.conversation.settings().contexts == {"claude": 7}
    assert into.report.conversations[0].forks == []


def test_a_session_that_is_resumed_keeps_its_context(into: Import) -> None:
    into.records(
        *TALK,
        record("progress", "p1", None, data={"type": "hook_progress", "hookName": "SessionStart:resume"}),
        user("u3", "p1", "Where were we?"),
    )

    assert asked(into) == ["One", "First", "Two", "Second", "Where were we?"]


def test_clear_begins_a_new_context_behind_itself(into: Import) -> None:
    into.records(*TALK, user("u3", "a2", "<command-name>/clear</command-name>"), user("u4", "u3", "Afresh"))

    assert asked(into) == ["Afresh"]
    assert into.report.conversations[0].decisions == {"context cleared": 1}


def test_going_back_before_a_cleared_context_brings_the_old_one_back(into: Import) -> None:
    into.records(
        *TALK,
        user("u3", "a2", "<command-name>/clear</command-name>"),
        user("u4", "u3", "Afresh"),
        user("u5", "a1", "Two, again"),
    )

    assert asked(into) == ["One", "First", "Two, again"]


def test_what_was_hidden_is_not_covered_by_a_summary(into: Import) -> None:
    into.records(*TALK, user("u3", "a1", "Two, again"), user("s1", "u3", "Summary", isCompactSummary=True))

    summary = into.entries[-1].event
    assert getattr(summary, "covers", None) == (
        PositionRange(first=2, last=4),
        PositionRange(first=8, last=8),
    )


@given(choices=st.lists(st.integers(0, 30), min_size=1, max_size=12), cut=st.integers(0, 30))
def test_whatever_is_gone_back_to_the_way_to_the_last_prompt_is_in_context(
    choices: list[int], cut: int
) -> None:
    """Each prompt goes on from any answer before it, or from the beginning; the file comes in two pieces."""
    records: list[Json] = []
    ways: dict[str | None, list[str]] = {None: []}
    way: list[str] = []
    for number, choice in enumerate(choices):
        parent = list(ways)[choice % len(ways)]
        way = [*ways[parent], f"u{number}"]
        records += [
            user(f"u{number}", parent, f"u{number}"),
            assistant(f"a{number}", f"u{number}", text(f"a{number}")),
        ]
        ways[f"a{number}"] = [*way, f"a{number}"]

    with TemporaryDirectory() as folder, importing(Path(folder)) as into:
        if before := records[: cut % len(records)]:
            into.file(lines(*before))
        into.file(lines(*records[:-1]))
        forks = len(into.log.names()) - 1

        assert asked(into) == way
        assert forks == into.report.conversations[0].decisions["rewound"]
