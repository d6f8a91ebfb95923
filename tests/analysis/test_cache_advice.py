"""Advice on the bill is as a provider that follows its documentation would bill it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from stenolog import AgentCard, ModeSwitch
from stenolog.analysis import Advice, advise
from stenolog.context import Prompt, policy
from stenolog.errors import CallerError
from stenolog.requests import build
from stenolog.testing import entries
from tests.analysis.paid_calls import Story, played, replayed, story, text
from tests.random_cases import seeds as seeds_of


@seeds_of(3, slow=20, nightly=200)
def test_the_bill_under_each_change_is_predicted_within_five_per_cent(seeds: range) -> None:
    for seed in seeds:
        told, dice = story(seed), random.Random(seed)
        found = advise([told.log])
        assert sum(one.simulated for one in found) == pytest.approx(told.cost, rel=0.05), seed
        for advice in found:
            sure = [option for option in advice.options if option.patch and not option.is_unsure]
            # All of them at night: each is a conversation played again.
            tried = sure if seeds.stop > 20 else dice.sample(sure, min(len(sure), 3))
            true = [replayed(told, advice.agent, dict(option.patch)) for option in tried]
            predicted = [told.cost - option.saving for option in tried]
            assert predicted == pytest.approx(true, rel=0.05), (seed, [option.words for option in tried])
            if advice.best is None:
                assert min(true, default=told.cost) > 0.96 * told.cost, (seed, "leave it")
            elif advice.best.patch:
                bill = replayed(told, advice.agent, dict(advice.best.patch))
                assert bill == pytest.approx(told.cost - advice.best.saving, rel=0.05), (seed, advice.best)
                assert bill < told.cost, (seed, advice.best)


def told(
    pauses: list[int], *, persona: int = 4_000, parallel: int = 1, size: int = 80, daily: str = ""
) -> Story:
    """Return an agent's conversation with these pauses."""
    dice = random.Random(1)
    made = AgentCard(model="claude-sonnet-4-5", persona=text(dice, persona))
    return played(dice, {"baker": made}, pauses, parallel, size, turns=8, daily=daily)


def advice_of(one: Story) -> Advice:
    (found,) = advise([one.log])
    return found


def test_an_hour_is_dearer_where_no_pause_is_long_and_then_it_is_best_to_leave_it() -> None:
    found = advice_of(told([5, 20]))
    hour = next(option for option in found.options if option.words == "keep everything for an hour")

    assert found.best is None
    assert hour.saving < -0.05 * found.simulated


def test_an_hour_is_the_advice_if_pauses_are_longer_than_five_minutes() -> None:
    best = advice_of(told([400, 900])).best

    assert best is not None
    assert best.patch["parameters"]["cache"] in ("1h", {"prefix": "1h"})


def test_nothing_is_kept_if_nobody_comes_back_in_an_hour() -> None:
    best = advice_of(told([4_000, 9_000])).best

    assert best is not None
    assert best.patch == {"parameters": {"cache": False}}


def test_rules_of_a_mode_are_moved_after_the_conversation() -> None:
    rules = Prompt(modes={"agent": "Bake. " * 90, "chat": "Talk. " * 90}, place="first")
    dice = random.Random(2)
    card = AgentCard(model="claude-sonnet-4-5", persona=text(dice, 4_000), policy=policy(rules).json)
    best = advice_of(played(dice, {"baker": card}, [5, 9], 1, 400, turns=10, switches=0.9)).best

    assert best is not None
    assert best.patch["policy"]["instructions"].get("place", "last") == "last"


def test_a_line_of_the_instructions_that_changes_is_named() -> None:
    one = told([5, 9], daily="Now: {}")
    found = advice_of(one)
    order = next(option for option in found.options if option.kind == "order")

    assert "Now: " in order.words
    assert order.saving > 0.2 * found.simulated


def test_calls_without_a_price_or_a_receipt_get_no_advice() -> None:
    assert advise([told([5]).log], prices=()) == []
    assert advise([[]]) == []


def body(cache: Any) -> dict[str, Any]:
    card = AgentCard(model="claude-sonnet-4-5", persona="Bake.", parameters={"cache": cache})
    log = entries(ModeSwitch(joins=("a",), cards={"a": card}))
    return dict(build(log, "a", api="anthropic").body)


@pytest.mark.parametrize(
    ("cache", "prefix", "whole"),
    [
        (True, {"type": "ephemeral"}, {"type": "ephemeral"}),
        ("1h", {"type": "ephemeral", "ttl": "1h"}, {"type": "ephemeral", "ttl": "1h"}),
        ({"prefix": "1h"}, {"type": "ephemeral", "ttl": "1h"}, {"type": "ephemeral"}),
        ({"messages": False}, {"type": "ephemeral"}, None),
        ({"turns": 2}, {"type": "ephemeral"}, None),
    ],
)
def test_a_card_places_the_breakpoints(cache: Any, prefix: Any, whole: Any) -> None:
    sent = body(cache)

    assert (sent["system"][0].get("cache_control"), sent.get("cache_control")) == (prefix, whole)


@pytest.mark.parametrize(
    ("cache", "words"),
    [
        ({"prefix": "5m", "messages": "1h"}, "the longer lifetimes first"),
        ({"prefix": "2h"}, '"5m", "1h" or false'),
        ({"suffix": "1h"}, "tools, prefix, messages, turns, found 'suffix'"),
        ({"turns": 3}, "1 or 2 turns, found 3"),
    ],
)
def test_a_card_that_places_them_wrongly_is_an_error(cache: Any, words: str) -> None:
    with pytest.raises(CallerError, match=words):
        body(cache)
