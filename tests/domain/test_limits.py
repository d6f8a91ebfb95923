"""Limits: what a lane has done since a person last spoke to it, and when that is enough."""

from __future__ import annotations

from datetime import timedelta
from functools import reduce

import pytest
from hypothesis import given
from pydantic import TypeAdapter

from stenolog import AssistantMessage, Entry, Event, LlmError, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.engine import LaneUsage, Limits, RoundRobin, Tokens, UsageByLane, limit_reached, track_usage
from stenolog.errors import InvalidPolicyError
from stenolog.events import CallRef, Control, Usage
from stenolog.parts import ImagePart
from stenolog.testing import entries
from tests.strategies import logs

ACCOUNTS = TypeAdapter(UsageByLane)
ASKED = UserMessage(text="Go", to=["coder"])
SHELL = ToolCall(id="c1", name="shell", arguments='{"cmd":"ls"}')
READ = ToolCall(id="c2", name="read", arguments='{"file":"a"}')
NEW = LaneUsage()
OFF = Limits(None, None, None, None, None, None, None, None)


def step(*calls: ToolCall, result: str = "same", is_error: bool = False) -> list[Event]:
    """Return an answer that calls tools, and what they all gave back."""
    results = (ToolResult(call_id=call.id, text=result, is_error=is_error) for call in calls)
    return [AssistantMessage(agent="coder", tool_calls=calls), *results]


def accounts(*events: Event) -> UsageByLane:
    return reduce(track_usage, entries(*events), UsageByLane())


def account(*events: Event) -> LaneUsage:
    return accounts(*events).lane("coder")


def why(*events: Event, limits: Limits = Limits()) -> str:  # noqa: B008 - frozen
    return limit_reached(limits, account(ASKED, *events))


def test_steps_since_the_last_message_are_limited() -> None:
    said = [AssistantMessage(agent="coder", text=f"Hm, {n}.") for n in range(50)]

    assert why(*said[:49]) == ""
    assert why(*said) == "max_steps: 50 steps since the last message"
    assert why(*said[:3], limits=Limits(max_steps=3)) == "max_steps: 3 steps since the last message"


@pytest.mark.parametrize(
    ("event", "anew"),
    [
        (UserMessage(text="Go on"), True),
        (ASKED, True),
        (UserMessage(text="Go", to=["tester"]), False),
        (UserMessage(text="A note", author_kind="system"), False),
        (UserMessage(text="For the screen", in_context=False), False),
        (UserMessage(control=Control(action="continue")), True),
        (UserMessage(control=Control(action="continue", agent="coder")), True),
        (UserMessage(control=Control(action="continue", agent="coder", task="docs")), False),
        (UserMessage(control=Control(action="cancel")), False),
        (ModeSwitch(mode="agent"), False),
    ],
)
def test_whoever_is_spoken_to_begins_anew(event: Event, anew: bool) -> None:
    before, after = account(ASKED, *step(SHELL)), account(ASKED, *step(SHELL), event)

    assert after._replace(since=None) == (NEW if anew else before._replace(since=None))
    assert (after.since != before.since) == anew


def test_only_answers_are_steps_but_every_token_counts() -> None:
    used = Usage(input=100, output=10, cache_read=60, reasoning=5)
    made = account(
        AssistantMessage(agent="coder", model="a", usage=used),
        AssistantMessage(agent="coder", model="a", purpose="summary", text="So far", usage=used),
        LlmError(agent="coder", model="b", category="timeout", usage=used),
        LlmError(agent="coder", category="timeout"),
        AssistantMessage(agent="tester", model="a", usage=used),
    )

    assert (made.steps, made.total) == (1, 330)
    assert made.tokens == {"a": Tokens(200, 20, 120, 0, 10), "b": Tokens(100, 10, 60, 0, 5)}


def test_tokens_are_limited_in_and_out_together() -> None:
    said = AssistantMessage(agent="coder", usage=Usage(input=900, output=100))

    assert why(said, limits=Limits(max_tokens=1_001)) == ""
    assert (
        why(said, limits=Limits(max_tokens=1_000))
        == "max_tokens: 1,000 of 1,000 tokens since the last message"
    )


def test_the_cost_is_limited_in_dollars_and_counted_in_micro_dollars() -> None:
    limits = Limits(max_cost=0.5)

    assert [limit_reached(limits, NEW, cost) for cost in (None, 0, 499_999)] == ["", "", ""]
    assert limit_reached(limits, NEW, 501_234) == "max_cost: 0.5012 of 0.5000 USD since the last message"


def test_the_same_call_with_the_same_result_is_stuck() -> None:
    stuck = 'stuck: shell({"cmd":"ls"}) gave the same result 3 times'

    assert why(*step(SHELL) * 2) == ""
    assert why(*step(SHELL) * 3) == stuck
    assert why(*step(SHELL) * 2, *step(SHELL, result="other")) == ""
    assert why(*step(SHELL) * 2, *step(READ), *step(SHELL)) == ""
    assert why(*step(SHELL) * 2, AssistantMessage(agent="coder", text="Done"), *step(SHELL)) == ""
    assert why(*step(READ), *step(SHELL) * 3) == stuck


def test_several_calls_of_one_answer_are_one_round_in_whatever_order_their_results_come() -> None:
    called = AssistantMessage(agent="coder", tool_calls=[SHELL, READ])
    one, other = (ToolResult(call_id=id, text="x") for id in ("c1", "c2"))

    assert why(called, one, other, called, other, one) == ""
    assert (
        why(called, one, other, called, other, one, called, one, other)
        == 'stuck: shell({"cmd":"ls"}) and 1 more gave the same result 3 times'
    )
    assert why(*step(SHELL, SHELL, SHELL)) == ""


def test_pictures_and_blobs_are_part_of_a_result() -> None:
    called = AssistantMessage(agent="coder", tool_calls=[SHELL])
    seen = [ToolResult(call_id="c1", parts=[ImagePart(blob=letter * 64)]) for letter in "abc"]

    assert why(*(event for result in seen for event in (called, result))) == ""
    assert "stuck" in why(called, seen[0], called, seen[0], called, seen[0])


def test_two_calls_in_turn_are_stuck() -> None:
    both = [*step(SHELL), *step(READ)]
    found = 'stuck: two calls in turn, 3 times: shell({"cmd":"ls"}) and read({"file":"a"})'

    assert why(*both * 2, *step(SHELL)) == ""
    assert why(*both * 3) == found
    assert why(*step(READ, result="other"), *both * 3) == found
    assert why(*both * 2, *step(SHELL, result="other"), *step(READ)) == ""
    assert why(*both * 3, limits=Limits(ping_pong=4)) == ""


def test_the_same_error_of_a_tool_is_stuck_whatever_the_arguments() -> None:
    tries = [ToolCall(id=f"c{n}", name="shell", arguments=f'{{"n":{n}}}') for n in range(3)]
    failing = [event for call in tries for event in step(call, result="no such file", is_error=True)]

    assert why(*failing[:4]) == ""
    assert why(*failing) == 'stuck: shell({"n":2}) failed with the same error 3 times'
    assert why(*failing[:4], *step(READ), *failing[4:]) == ""
    assert why(*failing[:4], *step(tries[2], result="no such file")) == ""


def test_a_result_belongs_to_the_call_it_names_or_to_the_nearest_of_its_id() -> None:
    tester = AssistantMessage(agent="tester", tool_calls=[SHELL])
    coder = AssistantMessage(agent="coder", tool_calls=[SHELL])
    named = ToolResult(call_id="x", call=CallRef(entry="e1"), text="x")

    def rounds(*events: Event) -> dict[str, int]:
        return {where: account.same for where, account in accounts(*events).lanes.items()}

    assert rounds(coder, tester, ToolResult(call_id="c1", text="x")) == {"coder": 0, "tester": 1}
    assert rounds(coder, tester, named) == {"coder": 1, "tester": 0}
    assert rounds(coder, named, named) == {"coder": 1}


def test_long_calls_are_quoted_in_short() -> None:
    long = ToolCall(id="c1", name="write", arguments='{"text":"' + "a" * 5_000 + '"}')
    reason = why(*step(long) * 3)

    assert reason.startswith('stuck: write({"text":"aaaa')
    assert len(reason) < 110


def test_what_is_off_limits_nothing() -> None:
    used = AssistantMessage(agent="coder", usage=Usage(input=10**9))
    lots = [used, *step(SHELL, is_error=True) * 100, *[*step(SHELL), *step(READ)] * 100]

    assert [why(*lots, limits=limits) for limits in (OFF, Limits(0, 0, 0, 0, 0, 0))] == ["", ""]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"max_steps": -1}, "Limits: /max_steps: expected greater than or equal to 0, found -1"),
        ({"max_steps": 1.5}, "Limits: /max_steps: expected a valid integer"),
        ({"max_cost": -0.5}, "Limits: /max_cost: expected greater than or equal to 0"),
        ({"max_cost": float("nan")}, "Limits: /max_cost: expected a finite number"),
        ({"ping_pong": 1}, "Limits: expected ping_pong of at least 2, found 1"),
        ({"max_stesp": 3}, "Limits: no such field: max_stesp"),
    ],
    ids=str,
)
def test_limits_that_make_no_sense_are_refused(given: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidPolicyError) as caught:
        Limits(**given)  # type: ignore[arg-type]

    assert complaint in str(caught.value)


@given(log=logs())
def test_the_accounts_go_on_from_any_that_were_written_down(log: list[Entry]) -> None:
    half = len(log) // 2
    begun = reduce(track_usage, log[:half], UsageByLane())
    written = ACCOUNTS.dump_json(begun)

    assert ACCOUNTS.validate_json(written) == begun
    assert reduce(track_usage, log[half:], ACCOUNTS.validate_json(written)) == reduce(
        track_usage, log, UsageByLane()
    )


def test_an_account_stays_small_however_much_a_lane_does() -> None:
    def size(steps: int) -> int:
        calls = (ToolCall(id=f"c{n}", name="shell", arguments=f"{n:04}" * 500) for n in range(steps))
        return len(ACCOUNTS.dump_json(accounts(*(event for call in calls for event in step(call)))))

    assert size(400) - size(40) < 20


def test_the_same_words_again_and_again_are_stuck_as_the_same_calls_are() -> None:
    same, other = (AssistantMessage(agent="coder", text=text) for text in ("No  change.", "Hm."))
    reworded = AssistantMessage(agent="coder", text="No change.\n")

    assert why(same, reworded) == ""
    assert why(same, reworded, same) == "stuck: the same words 3 times: No change."
    assert why(same, same, other, same) == ""
    assert why(same, same, *step(SHELL), same) == ""
    assert why(*[same] * 9, limits=Limits(same_words=None)) == ""


def test_who_passes_again_and_again_is_not_stuck() -> None:
    turns = ModeSwitch(turns=RoundRobin(pass_token="....."))
    passed = AssistantMessage(agent="coder", text=" .....")

    assert why(turns, *[passed] * 5) == ""
    assert why(*[passed] * 5) == "stuck: the same words 5 times: ....."


def test_three_calls_in_turn_again_and_again_are_stuck() -> None:
    grep = ToolCall(id="c3", name="grep", arguments='{"for":"x"}')
    cycle = [*step(SHELL), *step(READ), *step(grep)]

    assert why(*cycle * 2, *step(SHELL), *step(READ)) == ""
    assert why(*cycle * 3).startswith("stuck: three calls in turn, 3 times: shell(")
    assert why(*cycle * 2, *step(READ), *cycle) == ""
    assert why(*cycle * 3, limits=Limits(ping_pong=None)) == ""


def test_a_lane_has_so_many_seconds_since_a_person_spoke_to_it_or_decided_about_its_calls() -> None:
    limits, log = Limits(seconds=10), entries(ASKED, *step(SHELL))
    late = log[0].time + timedelta(seconds=10)
    now = accounts(ASKED, *step(SHELL)).lane("coder")

    assert limit_reached(limits, now, None, late) == "seconds: 10 of 10 s since the last message"
    assert limit_reached(limits, now, None, late - timedelta(seconds=1)) == ""
    assert limit_reached(limits, now, None) == ""

    made = log[1]
    control = Control(action="approve", call=CallRef(entry=made.id))
    decided = reduce(track_usage, entries(ASKED, made.event, UserMessage(control=control)), UsageByLane())
    assert decided.lane("coder").since == log[2].time
