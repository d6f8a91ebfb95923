"""Judges of answers, and verdicts that keep their stated confidence."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator
from itertools import product
from math import comb, sqrt
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import ToolCall, UserMessage
from stenolog.apps.views.asked_again import AskedAgain, asked_again, to_ask
from stenolog.context import LastN
from stenolog.engine import Panel, judge_from
from stenolog.errors import CallerError
from stenolog.events import AssistantMessage, ToolResult
from stenolog.models import ModelRequest, ModelResponse
from stenolog.parts import TextPart
from stenolog.projections.analysis.retry import (
    Change,
    Judged,
    Pair,
    cases,
    interval,
    judged,
    retried,
    same_calls,
)
from tests.analysis.test_asking import Provider
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


class Noisy(Provider):
    """A provider that looks nearly always, but less often if it is told to be brief."""

    charges = "nothing"

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[Any, None]:
        looks = 0.7 if "Be brief." in str(prompt.body) else 0.97
        call = ToolCall(id=prompt.key, name="look", arguments="{}")
        yield ModelResponse((call,) if self._chance.random() < looks else (TextPart(text="It is blue."),))


def asked_under(calls: int, persona: str, seed: int) -> AskedAgain:
    """Return the verdict on recorded calls under other instructions."""
    with stenolog.open(":memory:") as log, stenolog.open(":memory:") as answers:
        talk = log["demo"]
        talk.join("coder", model="model-1", persona="Be kind.")
        for number in range(calls):
            talk.append(UserMessage(f"Look at {number}."))
            looked = ToolCall(id=f"c{number}", name="look", arguments="{}")
            receipt = talk.request("coder", policy=LastN(2)).receipt
            talk.append(AssistantMessage(agent="coder", tool_calls=[looked], receipt=receipt))
            talk.append(ToolResult("It is blue.", call_id=f"c{number}", name="look"))
        change = Change(card={"persona": persona})
        entries = [*talk]
        asked = to_ask(retried(cases(entries), entries, change), change.in_words)

        async def verdicts() -> Any:
            async with Panel(Noisy(seed=seed), answers) as panel:
                return await panel.verdicts(asked.questions, 3)

        found = asyncio.run(verdicts())
    terms: Any = {"judge": "calls", "times": 3, "confidence": 0.95, "missing": 0, "micro_usd": 0}
    return asked_again(asked, found, change=change.in_words, **terms)


@pytest.mark.parametrize(
    ("calls", "seed"), [(60, 1), pytest.param(500, 2, marks=pytest.mark.slow)], ids=["60", "500"]
)
def test_a_worse_prompt_is_found_and_one_that_changes_nothing_is_not(calls: int, seed: int) -> None:
    worse, same = asked_under(calls, "Be brief.", seed), asked_under(calls, "Be nice.", seed)
    assert worse.judged is not None
    assert same.judged is not None
    assert (worse.judged.verdict, same.judged.verdict) == ("regressed", "no difference found")
    assert (worse.failed, same.failed) == (True, False)
    assert worse.judged.whole.calls == same.judged.whole.calls == calls
    assert worse.judged.whole.low <= 0.7 - 0.97 <= worse.judged.whole.high
    none = asked_under(calls, "Be kind.", seed)
    assert (none.unaltered, none.pairs) == (calls, ())


def test_judges_have_names(tmp_path: Path) -> None:
    schema = {"type": "object", "required": ["city"]}
    (tmp_path / "city.json").write_text(json.dumps(schema))
    own = "def later(recorded, answer): return answer.text > recorded.text\n"
    (tmp_path / "own_judge.py").write_text(own)
    one, other = (AssistantMessage(text, agent="coder") for text in ('{"city": "Bern"}', "Bern"))
    assert judge_from("calls", tmp_path).passes(one, other)
    assert judge_from("schema:city.json", tmp_path).passes(other, one)
    assert not judge_from("schema:city.json", tmp_path).passes(one, other)
    later = judge_from("own_judge:later", tmp_path)
    assert (later.passes(other, one), later.passes(one, other)) == (True, False)
    for wrong in ("later", "own_judge:none", "own_judge:__name__", "model:nobody:x", "schema:own_judge.py"):
        with pytest.raises(CallerError):
            judge_from(wrong, tmp_path)
