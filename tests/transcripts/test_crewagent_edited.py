"""What the old app has changed in an export: what is said of other messages means them still, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import (
    Agent,
    AgentCard,
    AssistantMessage,
    Event,
    Log,
    ModeSwitch,
    NewEntry,
    Team,
    Tool,
    ToolCall,
    UserMessage,
)
from stenolog.adapters.conversation.verifying.requests import prove
from stenolog.contrib.crewagent import export_crewagent
from stenolog.domain.values import CallRef, PositionRange
from stenolog.events import Control
from stenolog.importers import import_file
from stenolog.models import Scripted
from tests.transcripts.crewagent_given import Message, call, folder, imported, index, keep, message, read


@pytest.fixture
def log() -> Iterator[Log]:
    with stenolog.open(":memory:") as log:
        yield log


@pytest.fixture
def other() -> Iterator[Log]:
    with stenolog.open(":memory:") as log:
        yield log


A_NOTE = message("n1", "user", "NOTE")


def without(*ids: str) -> Any:
    return lambda messages: [each for each in messages if each["id"] not in ids]


def sent(log: Log) -> list[str]:
    """Return the messages of the next request."""
    parts = log["talk"].request("a").body["messages"]
    return [part["content"].removeprefix("<summary>\n").split("\n")[0] for part in parts]


def a_story(log: Log) -> None:
    """Write six questions, a summary of the first four, and an edit of the last answer."""
    events: list[Any] = [ModeSwitch(joins=["a"], cards={"a": AgentCard()})]
    for nth in range(6):
        events += [UserMessage(text=f"Q{nth}"), AssistantMessage(agent="a", text=f"A{nth}")]
    events.append(
        AssistantMessage(agent="a", purpose="summary", text="SUM", covers=[PositionRange(first=2, last=9)])
    )
    events.append(AssistantMessage(agent="a", text="A5 anew", replaces=13))
    events.append(UserMessage(text="And?"))
    log["talk"].extend(NewEntry(event, f"e{nth}") for nth, event in enumerate(events, 1))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (without(), ["SUM", "Q4", "A4", "Q5", "A5 anew", "And?"]),
        (without("e2"), ["SUM", "Q4", "A4", "Q5", "A5 anew", "And?"]),
        (without("e4", "e5"), ["SUM", "Q4", "A4", "Q5", "A5 anew", "And?"]),
        (without("e13"), ["SUM", "Q4", "A4", "Q5", "A5 anew", "And?"]),
        (
            lambda messages: [messages[0], A_NOTE, *messages[1:]],
            ["NOTE", "SUM", "Q4", "A4", "Q5", "A5 anew", "And?"],
        ),
        (
            lambda messages: [*messages[:4], A_NOTE, *messages[4:]],
            ["SUM", "NOTE", "Q4", "A4", "Q5", "A5 anew", "And?"],
        ),
    ],
)
def test_a_summary_and_an_edit_stand_for_the_same_messages_wherever_these_are(
    log: Log, other: Log, tmp_path: Path, change: Any, expected: list[str]
) -> None:
    a_story(log)
    export_crewagent(log["talk"], tmp_path)
    keep(tmp_path, "talk", change(read(tmp_path)))

    imported(other, tmp_path)

    assert sorted(sent(other)) == sorted(expected)


@pytest.mark.parametrize("gone", [(), ("e2",), ("e5",), ("e2", "e3", "e4")])
def test_what_a_reset_and_a_rewind_have_taken_out_stays_out(
    log: Log, other: Log, tmp_path: Path, gone: tuple[str, ...]
) -> None:
    said = [UserMessage(text=f"Q{nth}") for nth in range(4)]
    events: list[Event] = [
        ModeSwitch(joins=["a"]),
        *said,
        ModeSwitch(context_from=5),
        UserMessage(text="And?"),
    ]
    events += [UserMessage(text="Never mind"), ModeSwitch(hides=[PositionRange(first=8, last=8)])]
    log["talk"].extend(NewEntry(event, f"e{nth}") for nth, event in enumerate(events, 1))
    export_crewagent(log["talk"], tmp_path)
    keep(tmp_path, "talk", without(*gone)(read(tmp_path)))

    imported(other, tmp_path)

    words = "".join(sent(other))
    assert ("Q2" in words, "Never mind" in words, "And?" in words) == (False, False, True)
    assert ("Q3" in words) is ("e5" not in gone)


def test_of_a_reset_nothing_is_left_where_all_of_its_messages_are_gone(
    log: Log, other: Log, tmp_path: Path
) -> None:
    events: list[Event] = [
        UserMessage(text="Q0"),
        ModeSwitch(context_from=2, hides=[PositionRange(first=1, last=1)]),
    ]
    log["talk"].extend([*(NewEntry(event, f"e{nth}") for nth, event in enumerate(events, 1))], expected=0)
    export_crewagent(log["talk"], tmp_path)
    keep(tmp_path, "talk", [A_NOTE, *read(tmp_path)[-1:]])

    imported(other, tmp_path)

    assert (other["talk"].settings().context_from, other["talk"].settings().hides) == (0, ())


def a_team(log: Log) -> None:
    team = Team([Agent("coder", llm=Scripted("one", "two", "three"))])
    for question in "abc":
        team.ask_sync(log["talk"], question)


def receipts(log: Log) -> list[bool]:
    events = [entry.event for entry in log["talk"].entries()]
    return [event.receipt is not None for event in events if isinstance(event, AssistantMessage)]


def edited(messages: list[Message]) -> list[Message]:
    return [{**each, "content": "changed"} if each["content"] == "b" else each for each in messages]


def grown(messages: list[Message]) -> list[Message]:
    return [*messages, A_NOTE, message("n2", "assistant", "Well.")]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (list, [True, True, True]),
        (grown, [True, True, True, False]),
        (edited, [True, False, False]),
        (lambda messages: messages[1:], [False, False, False]),
        (lambda messages: [*messages[:4], A_NOTE, *messages[4:]], [True, True, False]),
        (lambda messages: messages[:-1], [True, True]),
    ],
)
def test_a_receipt_is_kept_just_where_its_request_can_be_built(
    log: Log, other: Log, tmp_path: Path, change: Any, expected: list[bool]
) -> None:
    a_team(log)
    export_crewagent(log["talk"], tmp_path)
    keep(tmp_path, "talk", change(read(tmp_path)))

    imported(other, tmp_path)

    assert receipts(other) == expected
    proofs = next(prove(other["talk"])).proofs
    assert [proof.outcome for proof in proofs] == ["same"] * sum(expected)


def test_a_receipt_is_dropped_where_the_log_has_gone_another_way(
    log: Log, other: Log, tmp_path: Path
) -> None:
    log["talk"].append(UserMessage(text="Begun"), id="e1")
    export_crewagent(log["talk"], tmp_path)
    imported(other, tmp_path)
    other["talk"].append(UserMessage(text="Only here"))
    a_team(log)
    export_crewagent(log["talk"], tmp_path)

    imported(other, tmp_path)

    assert receipts(other) == [False, False, False]


# What a file cannot tell


FREE = {"assistant": {"tools": [{"name": "shell"}]}}


@pytest.mark.parametrize(
    ("forged", "reason"),
    [
        (
            {"control": {"action": "approve", "call": {"entry": "m1", "index": 0}}},
            "found 'approve', which a file",
        ),
        ({"control": {"action": "continue", "agent": "assistant"}}, "found 'continue', which a file"),
        ({"cards": FREE}, "leaves shell to be approved"),
        ({"cards": {"assistant": {}}}, "leaves shell to be approved"),
        ({"cards": {"assistant": None}}, "leaves shell to be approved"),
    ],
)
def test_an_approval_never_comes_out_of_a_file(
    log: Log, tmp_path: Path, forged: dict[str, Any], reason: str
) -> None:
    made = folder(tmp_path, talk=[message("m0", "user", "Go")])
    imported(log, made)
    cards: dict[str, AgentCard | None] = {"assistant": AgentCard(tools=[Tool(name="shell", approval=True)])}
    log["talk"].append(ModeSwitch(cards=cards), expected=log["talk"].position)
    asked = message("m1", "assistant", None, "tool_call", tool_calls=[call("c1", "shell")])
    kind = "text" if "control" in forged else "mode_switch"
    consent = message("m2", "user", "", kind, stenolog={"native": True, "set": forged})
    told = [consent, asked] if kind == "mode_switch" else [asked, consent]
    keep(made, "talk", [message("m0", "user", "Go"), *told])

    found = import_file(log, made).conversations[0]

    assert [reason in skipped.reason for skipped in found.skipped] == [True]
    assert log["talk"].state().lane("assistant").status == "awaiting_approval"


def test_approvals_of_a_conversation_that_is_new_to_the_log_are_its_history(
    log: Log, other: Log, tmp_path: Path
) -> None:
    cards: dict[str, AgentCard | None] = {"a": AgentCard(tools=[Tool(name="shell", approval=True)])}
    log["talk"].append(ModeSwitch(joins=["a"], cards=cards), expected=0)
    log["talk"].append(UserMessage(text="Go"))
    said = AssistantMessage(agent="a", tool_calls=[ToolCall(id="c1", name="shell", arguments="{}")])
    entry = log["talk"].append(said)
    log["talk"].append(UserMessage(control=Control(action="approve", call=CallRef(entry=entry.id))))
    export_crewagent(log["talk"], tmp_path)

    imported(other, tmp_path)

    assert other["talk"].state().lane("a").status == "awaiting_tools"


# Whose conversation it is


def test_another_conversation_is_never_mixed_into_one_that_the_log_has(log: Log, tmp_path: Path) -> None:
    log["talk"].append(UserMessage(text="Begun here"))
    made = folder(tmp_path, talk=[message("m1", "user", "Begun there")], good=[message("g", "user", "Hi")])

    found = import_file(log, made).conversations

    assert ["give it another name" in conversation.failed for conversation in found] == [True, False]
    assert log["talk"].position == 2


# Ids


def test_what_was_skipped_is_no_reason_to_take_the_others_for_new(log: Log, tmp_path: Path) -> None:
    made = folder(tmp_path, talk=[{"role": "user", "content": "a"}, 5, {"role": "user", "content": "b"}])
    index(made, [{"id": "talk"}])
    import_file(log, made)
    export_crewagent(log["talk"], tmp_path / "out")

    again = imported(log, tmp_path / "out").conversations[0]

    assert (again.appended, again.already) == (0, 3)
    assert [each["content"] for each in read(tmp_path / "out")] == ["a", "b"]
