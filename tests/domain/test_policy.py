"""Context policies as values: joined, written down, read back, and refused by name where they are wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog import Agent, AgentCard
from stenolog.context import (
    Attribution,
    Budget,
    FullHistory,
    LastN,
    MemoriesAndRecent,
    MissedMessages,
    Pins,
    Policy,
    Prompt,
    Reminder,
    SinceLastTurn,
    SinceLastTurnOrRecent,
    SummaryAndRecent,
    Transforms,
    TruncateToolOutput,
    policy,
)
from stenolog.domain.policy_text import amount, in_short, policy_of
from stenolog.errors import InvalidPolicyError

from_one = st.integers(min_value=1, max_value=10**6)
HISTORIES = st.one_of(
    st.builds(FullHistory),
    st.builds(SinceLastTurn),
    st.builds(LastN, n=from_one),
    st.builds(SummaryAndRecent, recent=from_one),
    st.builds(SinceLastTurnOrRecent, recent=from_one),
    st.builds(MemoriesAndRecent, recent=from_one),
)
RULES = st.one_of(
    st.builds(Pins, positions=st.lists(from_one), tags=st.lists(st.text())),
    st.builds(Budget, tokens=from_one, messages=st.none() | from_one),
    st.builds(TruncateToolOutput, over=from_one),
    st.builds(Attribution, others=st.text()),
    st.builds(Transforms, names=st.lists(st.text())),
    st.builds(MissedMessages, title=st.text()),
    st.builds(Reminder, every=from_one),
    st.builds(Prompt, modes=st.dictionaries(st.text(), st.text()), place=st.sampled_from(["first", "last"])),
)


@given(HISTORIES, st.lists(RULES))
def test_a_policy_is_read_back_as_it_was_written(history: Any, rules: list[Any]) -> None:
    whole = policy(history, *rules)

    assert policy(whole.json) == whole
    assert AgentCard(policy=whole).policy == whole.json


@given(HISTORIES, RULES)
def test_rules_are_joined_by_a_bar_a_list_or_side_by_side(history: Any, rule: Any) -> None:
    joined = history | rule

    assert joined == policy([history, rule]) == policy(history, rule) == policy(history) | policy(rule)
    assert AgentCard(policy=[history, rule]).policy == joined.json


def test_where_two_are_of_one_slot_the_later_one_counts() -> None:
    assert Budget(tokens=1) | LastN(3) | Budget(tokens=2) == Policy(LastN(3), budget=Budget(tokens=2))


def test_a_policy_without_a_history_leaves_the_history_of_the_other() -> None:
    assert (LastN(3) | Budget(tokens=2)).history == LastN(3)
    assert (LastN(3) | policy(Budget(tokens=2).json)).history == LastN(3)


def test_the_full_history_counts_where_it_is_asked_for_and_where_nothing_is() -> None:
    assert (LastN(3) | FullHistory()).history == (LastN(3) | policy(FullHistory().json)).history
    assert (LastN(3) | FullHistory()).history == policy().history == FullHistory()
    assert (policy(FullHistory()).json, policy().json) == ({"history": {"kind": "full"}}, {})


def test_what_is_done_to_the_json_is_not_done_to_the_policy() -> None:
    chosen = policy(Prompt(modes={"run": "Go on."}))

    chosen.json["instructions"]["modes"]["run"] = "Stop."

    assert chosen.json == {"instructions": {"modes": {"run": "Go on."}}}


def test_what_is_at_its_default_is_not_written() -> None:
    assert (LastN(50) | Pins(tags=("goal",))).json == {
        "history": {"kind": "last", "n": 50},
        "pins": {"tags": ["goal"]},
    }


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: LastN(0), "LastN: /n: expected greater than or equal to 1, found 0"),
        (lambda: LastN(), "LastN: expected n, found nothing"),  # type: ignore[call-arg]
        (lambda: LastN(5, 6), "LastN: expected a step of at most 5, found 6"),
        (lambda: LastN(5, 1, 3), "LastN: expected at most n, step by place, each once"),  # type: ignore[call-arg]
        (lambda: LastN(n="x"), "LastN: /n: expected a valid integer, found 'x'"),  # type: ignore[arg-type]
        (
            lambda: Pins(positions=[0]),
            "Pins: /positions/0: expected greater than or equal to 1, found 0",
        ),
        (lambda: Reminder(every=0), "Reminder: /every: expected greater than or equal to 1, found 0"),
        (
            lambda: TruncateToolOutput(over=-1),
            "TruncateToolOutput: /over: expected greater than or equal to 1, found -1",
        ),
        (lambda: Budget(), "Budget: expected tokens, messages, characters or bytes, found none of them"),
        (lambda: Budget(tokens=5, reserve=5), "Budget: expected a reserve below its 5 tokens, found 5"),
        (lambda: policy(LastN), "expected a policy, found the class LastN"),  # type: ignore[arg-type]
        (lambda: policy("last"), "expected a policy, found the text 'last'"),  # type: ignore[arg-type]
        (lambda: policy({"x": {}}), "/x: no such rule; expected one of history, pins, budget,"),
        (
            lambda: policy({"history": {"kind": "lst"}}),
            "/history/kind: expected a history: full, delta, last,",
        ),
        (lambda: policy({"history": {"kind": "last"}}), "/history: LastN: expected n, found nothing"),
        (lambda: policy({"budget": 5}), "/budget: expected an object, found int"),
        (lambda: policy({"budget": {"tokns": 1}}), "/budget: Budget: no such field: tokns"),
        (lambda: policy({"budget": {"cls": 1}}), "/budget: Budget: no such field: cls"),
        (lambda: AgentCard(policy={"history": {"kind": "lst"}}), "/history/kind: expected a history: full,"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(wrong: Callable[[], object], says: str) -> None:
    with pytest.raises(InvalidPolicyError) as raised:
        wrong()

    assert str(raised.value).startswith(says)


# A context policy as text: what may be written, and what is said of anything else.


WRITTEN = [
    ("full", FullHistory()),
    ("delta", SinceLastTurn()),
    ("last:50", LastN(50)),
    ("summary:20", SummaryAndRecent(20)),
    ("memory:5", MemoriesAndRecent(5)),
    ("delta:20", SinceLastTurnOrRecent(20)),
    ("tokens:16k", Budget(tokens=16_000)),
    ("last:50+tokens:16k", LastN(50) | Budget(tokens=16_000)),
    (
        "delta+tokens:1m+messages:80+characters:120k+bytes:1500",
        SinceLastTurn() | Budget(tokens=1_000_000, messages=80, characters=120_000, bytes=1_500),
    ),
]


@pytest.mark.parametrize(("written", "meant"), WRITTEN)
def test_a_short_form_is_the_policy_it_stands_for_and_is_written_again_as_it_was(
    written: str, meant: Policy
) -> None:
    assert policy_of(written) == policy(meant)
    assert in_short(policy(meant)) == written


@pytest.mark.parametrize(
    "written", ["tokens:8k+full", "full+tokens:8000", " full+tokens:8K ", "tokens:0.008m+full"]
)
def test_order_blanks_and_the_way_a_number_is_written_change_nothing(written: str) -> None:
    assert policy_of(written) == FullHistory() | Budget(tokens=8_000)


def test_a_history_that_keeps_some_messages_keeps_its_usual_number_where_none_is_given() -> None:
    assert policy_of("summary") == policy(SummaryAndRecent())
    assert policy_of("memory+tokens:8k") == MemoriesAndRecent() | Budget(tokens=8_000)


def test_json_is_taken_as_in_a_card() -> None:
    whole = LastN(50, step=10) | Budget(tokens=16_000, reserve=100) | Pins(tags=("goal",))

    assert policy_of(in_short(whole)) == whole
    assert in_short(whole).startswith("{")


def test_nothing_written_is_no_policy_so_that_the_cards_holds() -> None:
    assert policy_of(None) is None


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("lst:50", r"policy 'lst:50': expected full, delta, delta:N, last:N.*; did you mean 'last'\?$"),
        ("summery:20", r"did you mean 'summary'\?$"),
        ("", r"policy '': expected full"),
        ("last", r"policy 'last': expected full"),
        ("full:3", r"policy 'full:3': expected full"),
        ("tokens", r"policy 'tokens': expected full"),
        ("last:50+", r"policy 'last:50\+': expected full"),
        ("last:0", r"--policy: last: expected a whole number from 1 on, such as 500, .*, found '0'$"),
        ("tokens:16 000", r"expected a whole number .*, found '16 000'"),
        ("last:50,tokens:16k", r"found '50,tokens:16k'; several rules are joined by \+"),
        ("tokens:1.5", r"expected a whole number .*, found '1.5'"),
        ("tokens:-5k", r"expected a whole number .*, found '-5k'"),
        ("last:5+full", r"'full' says again what was said before it"),
        ("tokens:5k+tokens:6k", r"'tokens:6k' says again"),
        ('{"budget": ', r"the policy begins with { and is no JSON"),
        ('{"budjet": {}}', r"/budjet: no such rule; expected one of history, pins"),
    ],
)
def test_what_is_no_policy_is_refused_with_what_was_expected(written: str, complaint: str) -> None:
    with pytest.raises(InvalidPolicyError, match=complaint):
        policy_of(written)


def test_an_amount_is_written_in_thousands_and_millions() -> None:
    written = {"1": 1, "16k": 16_000, "1.5m": 1_500_000, "2M": 2_000_000}

    assert {text: amount(text, "--tokens") for text in written} == written


def test_an_agent_takes_the_short_form_as_a_team_file_does_and_its_error_names_the_agent() -> None:
    assert Agent("coder", policy="memory:4").policy == policy_of("memory:4")
    with pytest.raises(InvalidPolicyError, match=r"^agent 'coder': policy 'memry:4'.* 'memory'\?$"):
        Agent("coder", policy="memry:4")
