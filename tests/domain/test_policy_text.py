"""A context policy as text: what may be written, and what is said of anything else."""

from __future__ import annotations

import pytest

from stenolog import Agent
from stenolog.context import (
    Budget,
    FullHistory,
    LastN,
    MemoriesAndRecent,
    Pins,
    Policy,
    SinceLastTurn,
    SinceLastTurnOrRecent,
    SummaryAndRecent,
    policy,
)
from stenolog.domain.errors import InvalidPolicyError
from stenolog.domain.policy_text import amount, in_short, policy_of

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
