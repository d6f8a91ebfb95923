"""What a budget must not change: who may know what, what a person takes back, and where an edit stands."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from stenolog import (
    AgentCard,
    AssistantMessage,
    Event,
    LlmError,
    ModeSwitch,
    Request,
    TextPart,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.context import Budget, FullHistory, LastN, MemoriesAndRecent, Pins, Policy, policy
from stenolog.events import Origin, PositionRange
from stenolog.parts import ImagePart
from stenolog.projections.requests import build, every_request
from stenolog.projections.requests.incremental.series import window
from stenolog.projections.requests.pipeline.lane import LaneId
from tests.random_cases import seeds
from tests.requests.given import ASKED, CALL, calls, log
from tests.requests.sessions import taken_up

HUGE = policy(Budget(tokens=10_000_000))
SMALL = policy(Budget(tokens=1_000))
WORDS = "word " * 60


def words(*events: Event, chosen: Policy) -> str:
    """Return every text that is sent to the coder."""
    body = build(log(ModeSwitch(joins=["coder"]), *events), "coder", policy=chosen).body
    return "\n".join(str(message["content"]) for message in body["messages"])


@pytest.mark.parametrize("chosen", [policy(FullHistory()), HUGE, SMALL], ids=["full", "huge", "small"])
def test_no_summary_tells_of_what_was_not_for_the_lane_wherever_the_cut_is(chosen: Policy) -> None:
    conversation: list[Event] = [UserMessage(text=WORDS, to=["coder"]), calls(WORDS)] * 20
    told = AssistantMessage(
        agent="rev", purpose="summary", covers=[PositionRange(first=4, last=10)], text="The code is 4711."
    )

    said = words(
        ModeSwitch(scope="addressed"),
        ASKED,
        UserMessage(text="4711", to=["rev"]),
        *conversation,
        told,
        chosen=chosen,
    )

    assert "4711" not in said


def test_a_rewind_that_is_taken_back_brings_everything_back_under_a_budget_too() -> None:
    conversation = [UserMessage(text=f"number {n}.") for n in range(200)]
    hidden: tuple[Event, ...] = (
        *conversation,
        ModeSwitch(hides=[PositionRange(first=2, last=191)]),
        ASKED,
        ModeSwitch(hides=None),
        ASKED,
    )

    assert words(*hidden, chosen=HUGE) == words(*hidden, chosen=policy(FullHistory()))


def test_edits_stay_where_the_edited_stood_however_many_there_are() -> None:
    edits = [UserMessage(text=f"edit {n}", replaces=4) for n in range(120)]
    conversation: tuple[Event, ...] = (
        ASKED,
        calls("ok"),
        UserMessage(text="first"),
        UserMessage(text="anew", replaces=2),
        *edits,
        ASKED,
    )

    assert words(*conversation, chosen=HUGE) == words(*conversation, chosen=policy(FullHistory()))


def test_of_two_edits_only_the_later_is_shown_after_the_edited_has_left() -> None:
    pinned = UserMessage(text="second wording", replaces=2, tags=["goal"])
    conversation = [UserMessage(text=WORDS) for _ in range(40)]

    said = words(
        UserMessage(text="first wording"),
        pinned,
        *conversation,
        UserMessage(text="third wording", replaces=2, tags=["goal"]),
        chosen=SMALL | Pins(tags=["goal"]),
    )

    assert ("third wording" in said, "second wording" in said, "first wording" in said) == (
        True,
        False,
        False,
    )


def test_the_message_that_is_being_answered_stays_when_it_was_edited() -> None:
    work = [each for _ in range(20) for each in (calls("", CALL), ToolResult(call_id="c1", text=WORDS))]
    edited = UserMessage(text="the task, edited", replaces=2)

    said = words(UserMessage(text="the task"), calls("", CALL), edited, ASKED, *work, chosen=SMALL)

    assert "the task, edited" in said


def test_a_window_from_its_mark_agrees_when_a_replaced_summary_brings_back_what_it_covered() -> None:
    entries = log(
        *[UserMessage(text="small") for _ in range(26)],
        *[UserMessage(text=WORDS * 8) for _ in range(9)],
        AssistantMessage(
            agent="coder", purpose="summary", covers=[PositionRange(first=27, last=35)], text="In short"
        ),
        ModeSwitch(title="more"),
        *[UserMessage(text=WORDS * 6) for _ in range(6)],
        calls("Done", replaces=36),
        ASKED,
    )
    chosen = policy(Budget(tokens=8_000))
    early = window(LaneId("coder"), chosen, entries[:43])
    late = taken_up(early, entries)
    for entry in entries[43:]:
        early.take(entry)
        late.take(entry)

    assert late.snapshot == early.snapshot == window(LaneId("coder"), chosen, entries).snapshot


def test_of_many_failures_in_a_row_the_last_partial_answer_stays() -> None:
    failures = [LlmError(agent="coder", category="timeout", text=f"part {n} {WORDS}") for n in range(40)]

    request = build(log(ASKED, *failures), "coder", policy=SMALL)

    assert "part 39" in str(request.body)
    assert request.size.tokens <= 1_000


def test_a_partial_answer_that_has_no_room_goes_with_the_note_after_it() -> None:
    cut_off = LlmError(
        agent="coder", category="timeout", message="silence", parts=[TextPart(text=WORDS * 30)]
    )
    entries = log(
        ModeSwitch(joins=["coder"], cards={"coder": AgentCard(model="gpt-5.2")}),
        ASKED,
        cut_off,
        UserMessage(text="continue", to=["coder"]),
        calls("", CALL),
    )
    small = policy(Budget(tokens=2_000))

    with_it, after_it = (build(entries[:at], "coder", policy=small) for at in (4, 5))

    assert "this must stay: position 3 (cut-off" in with_it.reason
    assert after_it.reason == "1 of its calls has no result yet"
    assert 3 not in positions_shown(after_it)


def test_what_is_kept_beside_the_last_messages_does_not_push_them_out() -> None:
    facts = [AssistantMessage(agent="coder", purpose="memory", text=f"fact {n}") for n in range(30)]
    conversation = [
        each for n in range(5) for each in (UserMessage(text=f"question {n}"), calls(f"answer {n}"))
    ]

    said = words(ASKED, *facts, *conversation, ASKED, chosen=policy(MemoriesAndRecent(3)))

    assert [f"fact {n}" in said for n in range(30)] == [True] * 30
    assert ("question 4" in said, "answer 4" in said, "answer 3" in said) == (True, True, False)


def test_a_policy_that_cannot_be_used_ends_where_the_card_is_mended() -> None:
    from stenolog.domain.codec import REGISTRY

    wrong = REGISTRY.load("mode_switch@1", b'{"cards":{"coder":{"policy":{"mood":{}}}},"joins":["coder"]}')
    mended = REGISTRY.load("mode_switch@1", b'{"cards":{"coder":{"policy":{}}}}')

    positions = [request.at for request in every_request(log(wrong, ASKED, mended, ASKED), "coder")]

    assert positions == [3, 4]


def test_a_small_picture_costs_a_budget_in_bytes_what_is_sent_of_it() -> None:
    sha = "a" * 64
    picture = UserMessage(parts=[TextPart(text="Look"), ImagePart(blob=sha)])
    conversation = [UserMessage(text=f"number {n}") for n in range(100)]
    chosen, blobs = policy(Budget(bytes=400_000)), {sha: b"x" * 20_000}

    request = build(
        log(ModeSwitch(joins=["coder"]), *conversation, picture), "coder", policy=chosen, blobs=blobs
    )

    assert (request.cuts, request.ready) == (0, True)
    assert 20_000 < request.size.bytes < 400_000


def test_many_pictures_are_cut_where_a_budget_in_bytes_has_no_room() -> None:
    sha = "a" * 64
    conversation = [
        UserMessage(parts=[TextPart(text=f"Look at {n}"), ImagePart(blob=sha)]) for n in range(40)
    ]
    chosen, blobs = policy(Budget(bytes=400_000)), {sha: b"x" * 20_000}

    requests = [
        *every_request(log(ModeSwitch(joins=["coder"]), *conversation), "coder", policy=chosen, blobs=blobs)
    ]

    assert [request.reason for request in requests if request.at > 1 and not request.ready] == []
    assert requests[-1].cuts > 0


def spoken(random: Random, turns: int) -> list[Event]:
    """Return a conversation whose responses are messages, calls and results, its last run over."""
    events: list[Event] = [UserMessage(text="begin")]
    for turn in range(turns):
        kind, part = random.choice("uuacc"), Origin(system="claude-code", id=f"m{turn}")
        if kind == "u":
            events.append(UserMessage(text=f"u{turn}"))
        elif kind == "a":
            events.append(calls(f"a{turn}", source=part))
        else:
            shell = ToolCall(id=f"c{turn}", name="shell")
            events += [calls(f"t{turn}", shell, source=part), ToolResult(call_id=shell.id, text=f"r{turn}")]
    return [*events, UserMessage(text="well?"), calls("end")]


def positions_shown(request: Request) -> list[int]:
    return sorted({p for part in request.parts for p in part.positions})


def test_what_had_to_stay_goes_when_its_run_is_over() -> None:
    shell = ToolCall(id="c", name="shell")
    answered = calls("", shell), ToolResult(call_id="c", text="3")
    asked = ModeSwitch(joins=["coder"]), UserMessage(text="1")
    talk = log(*asked, *answered, UserMessage(text="4"), UserMessage(text="5"), calls("6"))

    during, after = build(talk[:6], "coder", policy=LastN(4)), build(talk, "coder", policy=LastN(4))

    assert [(run.first, run.rule) for run in during.omissions] == [(5, "no-room")]
    assert positions_shown(after) == [6, 7]
    assert [(run.first, run.last, run.rule) for run in after.omissions] == [(2, 5, "beyond-last")]


@pytest.mark.parametrize("limit", [LastN(5), LastN(5) | Pins(positions=[2]), Budget(tokens=700)])
def test_the_runs_of_what_is_left_out_do_not_grow_with_the_log(limit: Any) -> None:
    turns = [event for turn in range(60) for event in worked(turn)]

    assert len(build(log(*turns), "coder", policy=limit).omissions) <= 4


def worked(turn: int) -> list[Event]:
    """Return a question that takes four calls to answer."""
    made: list[Event] = [UserMessage(text="And now?", to=["coder"])]
    for nth in range(4):
        shell = ToolCall(id=f"{turn}-{nth}", name="shell")
        made += [calls("", shell), ToolResult(call_id=shell.id, text="r" * 50)]
    return [*made, calls("Done.")]


@seeds(12, slow=100)
@pytest.mark.parametrize("n", [2, 3, 4, 6])
def test_the_last_messages_of_an_idle_lane_have_no_holes(n: int, seeds: range) -> None:
    for seed in seeds:
        shown = positions_shown(build(log(*spoken(Random(seed), 8)), "coder", policy=LastN(n)))

        assert shown == [*range(shown[0], shown[-1] + 1)], seed
