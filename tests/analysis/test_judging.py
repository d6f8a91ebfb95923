"""Judges of answers, and verdicts that keep their stated confidence."""

from __future__ import annotations

import json
import random
from itertools import product
from math import comb, sqrt

import pytest

from stenolog import ToolCall
from stenolog.events import AssistantMessage
from stenolog.projections.analysis.retry import Judged, Pair, interval, judged, same_calls
from tests.random_cases import seeds

CALLS = 500
TIMES = 4
TOOLS = ("", "read", "search", "write")


def answer(*calls: tuple[str, object], text: str = "") -> AssistantMessage:
    """Return an answer with these calls, under ids of its own."""
    made = [
        ToolCall(id=f"{random.random()}", name=name, arguments=json.dumps(given)) for name, given in calls
    ]
    return AssistantMessage(text, agent="coder", tool_calls=made)


def test_the_same_calls_may_come_in_another_order_with_other_ids_and_words() -> None:
    one, other = ("read", {"path": "a", "line": 1}), ("read", {"path": "b"})
    swapped = answer(other, ("read", {"line": 1, "path": "a"}), text="Let me look.")
    assert same_calls(answer(one, other), swapped)
    assert same_calls(answer(text="Yes."), answer(text="It is so."))
    for different in (answer(one), answer(one, one), answer(one, ("write", {"path": "b"})), answer()):
        assert not same_calls(answer(one, other), different)


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_an_interval_holds_the_share_as_often_as_it_states(confidence: float) -> None:
    for of in (10, 40, 200):
        held, shares = 0.0, [each / 40 for each in range(1, 40)]
        for share, passed in product(shares, range(of + 1)):
            found = interval(passed, of, confidence)
            assert 0 <= found.low <= found.share <= found.high <= 1
            if found.low <= share <= found.high:
                held += comb(of, passed) * share**passed * (1 - share) ** (of - passed) / len(shares)
        assert abs(held - confidence) < 0.015


def verdict(chance: random.Random, broken: float = 0.0, drop: float = 0.0) -> Judged:
    """Return the verdict on a corpus in which a part of the calls of one tool pass less often."""
    pairs = []
    for number in range(CALLS):
        tool = TOOLS[number % len(TOOLS)]
        # Of most calls a model is sure, of some it is not.
        before = chance.choice((1.0, 1.0, 0.97, 0.9, 0.5, 0.0))
        is_broken = tool == "search" and chance.random() < broken
        after = max(0.0, before - drop) if is_broken else before
        passed = [sum(chance.random() < share for _ in range(TIMES)) for share in (before, after)]
        pairs.append(Pair(tool, passed[0], TIMES, passed[1], TIMES))
    return judged(pairs)


def most_wrong(of: int) -> float:
    """Return how many verdicts may be wrong at 95 %; more come once in 10,000 times if that holds."""
    return 0.05 * of + 3.7 * sqrt(0.05 * 0.95 * of)


@seeds(fast=12, slow=200)
def test_no_change_is_none_at_the_stated_confidence(seeds: range) -> None:
    found = [verdict(random.Random(seed)).verdict for seed in seeds]
    assert sum(each != "no difference found" for each in found) <= most_wrong(len(found))


@seeds(fast=6, slow=100)
def test_a_planted_regression_is_found_with_its_tool(seeds: range) -> None:
    others = 0
    for seed in seeds:
        found = verdict(random.Random(seed), broken=0.5, drop=0.6)
        assert found.verdict == "regressed"
        search = found.groups["search"]
        assert search.verdict == "regressed"
        assert search.low <= search.after.share - search.before.share <= search.high < 0
        others += any(each.verdict == "regressed" for tool, each in found.groups.items() if tool != "search")
    assert others <= most_wrong(len(seeds))


def test_a_few_calls_that_break_for_certain_are_enough() -> None:
    same = [Pair("", 4, 4, 4, 4)] * 497
    assert judged([*same, *[Pair("", 4, 4, 0, 4)] * 3]).verdict == "regressed"
    assert judged([*same, *[Pair("", 0, 4, 4, 4)] * 3]).verdict == "improved"
    assert judged([*same, Pair("", 3, 4, 4, 4), Pair("", 4, 4, 3, 4)]).verdict == "no difference found"
    assert judged([]).verdict == "no difference found"
