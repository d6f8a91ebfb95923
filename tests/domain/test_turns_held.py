"""Who has the turn: why, under rules from the log and of one's own, after any history and any restart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from pydantic import TypeAdapter

from stenolog import AssistantMessage, Event, LlmError, ModeSwitch, State, ToolResult, decide, evolve
from stenolog.domain.lanes.lifecycle import BUSY
from stenolog.domain.lanes.step import INITIAL, fold
from stenolog.domain.lanes.turns import (
    TURN_RULES,
    ByAddress,
    NextTurn,
    Orchestrator,
    Parallel,
    RoundRobin,
    Sequential,
    TurnRule,
    TurnView,
    is_known,
    load,
    present,
    register_turn_rule,
    rule_of,
)
from stenolog.errors import CallerError, IllegalCommandError, InvalidEventError, InvalidPolicyError
from stenolog.events import TurnPolicy
from stenolog.testing import entries
from tests.domain.talking import (
    GO_ON,
    HI,
    PASS,
    after,
    asked,
    busy,
    called,
    course,
    failed,
    last,
    left,
    opened,
    passed,
    said,
)
from tests.strategies import histories, json_values

STATES = TypeAdapter(State)


def test_the_cause_of_a_turn_is_the_entry_that_gave_it_and_the_transition_says_why() -> None:
    rested, next_one = last(opened(RoundRobin()), HI, said("a"))

    assert (rested.lane, rested.target, rested.decision.reason) == ("a", "idle", "b has the turn")
    assert (next_one.lane, next_one.trigger, next_one.reason) == ("b", "asked", "after a")
    assert (next_one.decision.do, next_one.decision.cause) == ("call_model", 3)
    assert [made.reason for made in last(opened(RoundRobin()), HI)] == ["a person has spoken"]


def test_the_last_of_the_workers_is_why_the_orchestrator_is_asked() -> None:
    *_, made = last(opened(Orchestrator("a")), HI, said("a", to=["b", "c"]), said("b"), said("c"))

    assert (made.lane, made.decision.cause) == ("a", 5)
    assert made.reason == "all that were asked have come to rest"


def test_an_idle_lane_says_what_it_waits_for() -> None:
    ended = last(opened(RoundRobin(max_rounds=1), "a"), HI, said("a"))
    both = last(opened(Parallel()), HI, said("a"))

    assert [made.decision.reason for made in ended] == ["max_rounds: 1"]
    assert [made.decision.reason for made in both] == ["b, c have the turn"]
    assert [made.decision.reason for made in last(opened(None, "a"), HI, said("a"))] == [""]


def test_a_lane_that_failed_says_how() -> None:
    [made] = last(opened(None, "a"), HI, failed("a", "budget"))

    assert made.decision.reason == "failed: budget"


def test_steps_count_from_the_words_of_a_person_and_not_from_those_of_an_agent() -> None:
    chat = [opened(RoundRobin(), "a", "b"), HI, said("a"), said("b"), said("a")]
    handed = [opened(None), HI, said("a", to=["b"]), said("b", to=["a"]), said("a")]
    stopped = [opened(None, "a"), HI, called("a"), ToolResult(call_id="a1"), failed("a")]

    assert after(*chat).lane("a").steps == 2
    assert {where: lane.steps for where, lane in after(*chat, HI).lanes.items()} == {"a": 0, "b": 0}
    assert after(*handed).lane("a").steps == 2
    assert [after(*stopped).lane("a").steps, after(*stopped, GO_ON).lane("a").steps] == [1, 0]


def test_words_that_nobody_is_there_for_wait() -> None:
    assert after(ModeSwitch(turns=RoundRobin()), HI).waiting == 2
    assert after(opened(RoundRobin()), HI, HI).waiting == 0


def test_whom_a_message_is_for_is_decided_by_the_rule() -> None:
    gone = after(opened(RoundRobin()), left("a"))

    assert decide(gone, HI) == (HI,)
    with pytest.raises(IllegalCommandError, match="lane a is closed"):
        decide(gone, asked("a"))


def test_nobody_goes_on_out_of_turn_unless_by_name() -> None:
    past = [opened(RoundRobin()), HI, failed("a")]

    with pytest.raises(IllegalCommandError, match="nothing to continue"):
        decide(after(*past), GO_ON)
    assert busy(after(*past, GO_ON)) == ["b"]


@pytest.mark.parametrize(
    "rule",
    [
        ByAddress(),
        ByAddress(["a"]),
        RoundRobin(),
        RoundRobin(["b", "a"], pass_token=PASS, moderator="a", max_rounds=3),
        Sequential(["a"]),
        Orchestrator("a"),
        Parallel(order=["a/1", "a/2"]),
    ],
    ids=str,
)
def test_a_rule_stands_in_the_log_by_its_name_and_is_read_back(rule: TurnRule) -> None:
    switch = ModeSwitch(turns=rule)

    assert isinstance(switch.turns, TurnPolicy)
    assert (switch.turns.rule, load(switch.turns)) == (rule.name, rule)
    assert rule_of(after(switch).turns) == rule


@pytest.mark.parametrize("turns", [RoundRobin, "round_robin", 3])
def test_what_has_no_form_in_the_log_is_no_rule_of_turns(turns: Any) -> None:
    with pytest.raises(InvalidEventError, match=r"^ModeSwitch: /turns: .* an instance of TurnPolicy, found"):
        ModeSwitch(turns=turns)


def test_defaults_are_left_out_of_the_log() -> None:
    assert RoundRobin(max_rounds=2).turns == TurnPolicy(rule="round_robin", options={"max_rounds": 2})
    assert ModeSwitch(turns=TurnPolicy(rule="pipeline")).turns == TurnPolicy(rule="pipeline")


@pytest.mark.parametrize(
    ("turns", "why"),
    [
        (TurnPolicy(rule="by_lot"), "turns: expected a turn rule: addressed, round_robin, pipeline"),
        (TurnPolicy(rule="pipeline"), "turns: Sequential: expected order, found nothing"),
        (TurnPolicy(rule="round_robin", options={"skip": ["a"]}), "turns: RoundRobin: no such field: skip"),
        (TurnPolicy(rule="round_robin", options={"max_rounds": -1}), "turns: RoundRobin: /max_rounds: "),
    ],
    ids=str,
)
def test_a_rule_that_is_not_known_here_is_read_as_by_address_and_not_to_be_set(
    turns: TurnPolicy, why: str
) -> None:
    assert after(opened(turns)).anomalies == 1
    assert last(opened(turns))[0].anomaly.startswith(why)
    assert busy(after(opened(turns), HI, said("a", to=["b"]))) == ["b", "c"]
    with pytest.raises(IllegalCommandError, match="legal now: a turn rule that is registered: addressed, "):
        decide(INITIAL, opened(turns))


@pytest.mark.parametrize(
    ("made", "complaint"),
    [
        (lambda: Sequential([]), "Sequential: expected an order of at least one, found none"),
        (lambda: Sequential(["a", "b", "a"]), "Sequential: expected each once, found 'a' twice"),
        (lambda: RoundRobin(moderator="a"), "RoundRobin: expected a pass_token for the moderator"),
        (lambda: RoundRobin(max_rounds=-1), "RoundRobin: /max_rounds: "),
        (lambda: Orchestrator(), "Orchestrator: expected agent, found nothing"),  # type: ignore[call-arg]
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(made: Callable[[], Any], complaint: str) -> None:
    with pytest.raises(InvalidPolicyError) as caught:
        made()

    assert str(caught.value).startswith(complaint)


class Backwards(TurnRule):
    """A rule of an application's own: the members once, in the reverse order of joining."""

    __slots__ = ()
    name: ClassVar[str] = "backwards"

    def begin(self, state: State) -> NextTurn:
        return NextTurn(present(state, state.members[::-1])[:1], "the last one first")

    def after(self, state: State, turn: TurnView) -> NextTurn:
        before = state.members[: state.members.index(turn.lane)]
        return NextTurn(present(state, before[::-1])[:1], f"before {turn.lane}")


def test_a_turn_rule_is_known_if_it_is_registered_here() -> None:
    policies = (None, TurnPolicy(rule="round_robin"), TurnPolicy(rule="by_lot"))

    assert [is_known(policy) for policy in policies] == [True, True, False]


@pytest.fixture
def backwards() -> Iterator[TurnPolicy]:
    yield TurnPolicy(rule=register_turn_rule(Backwards).name)
    TURN_RULES.remove("backwards")


def test_a_rule_of_ones_own_is_obeyed(backwards: TurnPolicy) -> None:
    assert course(opened(backwards), HI, said("c"), said("b"), said("a")) == "- c b a - (before a)"


def test_a_rules_name_is_taken_once(backwards: TurnPolicy) -> None:
    assert register_turn_rule(Backwards) is Backwards
    with pytest.raises(CallerError, match=r"a turn rule 'backwards' is registered already: .*Backwards"):
        register_turn_rule(type("Other", (TurnRule,), {"name": "backwards"}))


RULED: SearchStrategy[TurnRule] = st.one_of(
    st.builds(
        RoundRobin,
        order=st.sampled_from(([], ["coder", "tester"], ["tester", "nobody", "coder", "a b-ü"])),
        pass_token=st.sampled_from(("", "Hello")),
        max_rounds=st.integers(0, 2),
    ),
    st.sampled_from((Sequential(["tester", "coder/docs", "coder"]), Parallel(), Orchestrator("coder"))),
    st.just(ByAddress(["tester"])),
)


@st.composite
def ruled(draw: st.DrawFn) -> list[Event]:
    """Return histories that begin with a rule of turns, and get another one on the way."""
    past, at = draw(histories()), draw(st.integers(0, 16))
    one, other = (ModeSwitch(turns=draw(RULED)) for _ in range(2))
    return [ModeSwitch(joins=["coder", "tester"]), one, *past[:at], other, *past[at:]]


@given(
    rule=st.sampled_from(sorted(TURN_RULES)),
    options=st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("order", "default", "agent", "pass_token", "moderator", "max_rounds"),
            json_values() | st.lists(st.sampled_from(("coder", "", "/", "nobody/x")), max_size=3),
        ),
    ),
    history=histories(),
)
def test_the_step_is_total_whatever_the_options_in_a_log(
    rule: str, options: Any, history: list[Event]
) -> None:
    log = entries(ModeSwitch(turns=TurnPolicy(rule=rule, options=options)), *history)

    assert fold(log).position == len(log)


@given(history=ruled())
def test_whoever_has_the_turn_has_something_to_do(history: list[Event]) -> None:
    state = INITIAL
    for entry in entries(*history):
        state = evolve(state, entry)

        assert [where for where in state.turn_state.holders if state.lane(where).status not in BUSY] == []
        assert not (state.turn_state.holders and state.turn_state.end_reason)


@given(history=histories(), rule=RULED.filter(lambda rule: rule.one_at_a_time))
def test_never_two_have_the_turn_where_one_speaks_at_a_time(history: list[Event], rule: TurnRule) -> None:
    state = fold(entries(ModeSwitch(joins=["coder", "tester"], turns=rule)))
    for entry in entries(ModeSwitch(joins=["coder", "tester"], turns=rule), *history)[1:]:
        state = evolve(state, entry)

        assert len(state.turn_state.holders) <= 1


@given(history=ruled(), at=st.integers(0, 20))
def test_after_a_restart_the_turn_is_the_same_ones(history: list[Event], at: int) -> None:
    log = entries(*history)
    half = STATES.validate_json(STATES.dump_json(fold(log[:at])))

    assert fold(log[at:], half) == fold(log)


def play(data: st.DataObject, rule: TurnRule, most: int) -> tuple[list[Event], State]:
    """Return a conversation in which busy lanes answer, pass or fail: at most so many events."""
    history: list[Event] = []
    state = after(opened(rule), HI)
    while (todo := busy(state)) and len(history) < most:
        agent = data.draw(st.sampled_from(todo))
        command = data.draw(st.sampled_from((said(agent), passed(agent), failed(agent))))
        assert decide(state, command) == (command,)
        history.append(command)
        state = after(opened(rule), HI, *history)
    return history, state


@given(data=st.data(), rounds=st.integers(1, 3))
def test_a_round_robin_with_a_number_of_rounds_always_ends(data: st.DataObject, rounds: int) -> None:
    history, state = play(data, RoundRobin(pass_token=PASS, max_rounds=rounds), 40)

    assert (busy(state), state.turn_state.end_reason != "", state.anomalies) == ([], True, 0)
    assert len(history) <= 3 * rounds


@pytest.mark.parametrize("rule", [Sequential(["c", "a", "b"]), Parallel(), Orchestrator("b")], ids=str)
@given(data=st.data())
def test_the_other_rules_always_end(rule: TurnRule, data: st.DataObject) -> None:
    history, state = play(data, rule, 40)

    assert (busy(state), state.turn_state.end_reason != "", state.anomalies) == ([], True, 0)
    assert len(history) <= 3


@given(data=st.data())
def test_a_round_robin_ends_as_soon_as_nobody_says_anything(data: st.DataObject) -> None:
    history, state = play(data, RoundRobin(pass_token=PASS), 30)
    quiet = [_is_quiet(event) for event in history]

    assert not any(all(quiet[n : n + 3]) for n in range(len(quiet) - 3))
    assert len(state.turn_state.holders) == len(busy(state))


def _is_quiet(event: Event) -> bool:
    """Return whether an answer says nothing: it passes, or fails."""
    match event:
        case AssistantMessage(text=text):
            return text.strip() == PASS
        case _:
            return isinstance(event, LlmError)
