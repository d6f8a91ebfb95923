"""Two runs compared: a planted difference is found at its step, and what may come in any order is none."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import given

import stenolog
from stenolog import (
    AssistantMessage,
    Entry,
    Request,
    ToolResult,
)
from stenolog.analysis import Comparison, compare, majority
from stenolog.context import FullHistory
from stenolog.engine import Team
from stenolog.errors import StenologError
from stenolog.projections.analysis.runs.comparison import steps_of
from stenolog.projections.analysis.runs.prompts import prompt_difference
from stenolog.requests import build
from tests.analysis.planted_runs import KINDS, Planted, crew, planted, played, renamed, short_digest, swapped
from tests.random_cases import seeds
from tests.strategies import logs


def found(comparison: Comparison) -> tuple[int, int]:
    first = comparison.first
    return (first.before, first.after) if first else (0, 0)


@seeds(10, slow=200)
def test_a_planted_difference_is_found_at_its_step_and_swaps_are_none(seeds: range, tmp_path: Path) -> None:
    missed = []
    for seed in seeds:
        pair = planted(seed, tmp_path)
        comparison = compare(pair.before, pair.after)
        back = compare(pair.after, pair.before)
        if found(comparison) != pair.at or found(back) != pair.at[::-1]:
            missed.append((seed, pair.kind, pair.at, found(comparison), found(back)))

    assert missed == []


@seeds(10, slow=40)
def test_of_two_requests_only_what_only_one_run_said_or_did_differs(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        pair = planted(seed, tmp_path)
        found = compare(pair.before, pair.after)
        same = set(found.twins), set(found.twins.values())
        answers = [*found.twins.items(), *((each.before, each.after) for each in found.divergences)]
        for before, after in answers:
            requests = _requests(pair, before, after)
            for change in prompt_difference(*requests, pair[:2], found).changes if requests else ():
                known = same[change.sign != "-"]
                where = [each for each in range(change.first, change.last + 1) if each not in known]
                assert where or not change.first, (seed, before, after, change)


def _requests(pair: Planted, before: int, after: int) -> tuple[Request, Request] | None:
    """Return the requests before an answer that both runs have, without a policy: it cuts by position."""
    made = []
    for log, position in ((pair.before, before), (pair.after, after)):
        event = log[position - 1].event if position else None
        if not isinstance(event, AssistantMessage) or event.receipt is None:
            return None
        entries = log[: event.receipt.view]
        with suppress(StenologError):
            made.append(build(entries, event.agent, task=event.task, policy=FullHistory(), api="anthropic"))
    return (made[0], made[1]) if len(made) == 2 and all(each.ready for each in made) else None


@seeds(2, slow=20)
def test_each_run_leaves_the_majority_at_its_own_difference(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        pair = planted(len(KINDS) * seed + seed % 4, tmp_path)
        same = [renamed(Random(n), swapped(Random(n), [*pair.before], 0)[0]) for n in range(3)]

        found = majority([pair.before, *same, pair.after])

        firsts = {each.run: each.comparison.first for each in found.others}
        assert found.run < 4
        assert [run for run, first in firsts.items() if first] == [4]
        assert {each.stay for each in found.others if each.run == 4} == {4}
        assert firsts[4] is not None
        assert firsts[4].after == pair.at[1]


@seeds(8, slow=200)
def test_a_team_that_runs_twice_differs_where_its_world_does(seeds: range) -> None:
    for seed in seeds:
        random, orders = Random(seed), [f"@ann @bob order-{short_digest(seed, n)}" for n in range(3)]
        lost = random.choice(orders)
        with stenolog.open(":memory:") as log:
            one = played(log, "one", crew(seed), orders)
            results = [entry for entry in one if isinstance(entry.event, ToolResult)]
            result = random.choice(results).event.text if results else ""  # type: ignore[union-attr]
            worlds: list[tuple[Team, list[str], str, str]] = [
                (crew(seed + 1_000), orders, "", ""),
                (crew(seed + 1_000, other=result), orders, result, f"{result}-otherwise" if result else ""),
                (crew(seed + 1_000), [each for each in orders if each != lost], lost, ""),
                (crew(seed + 1_000, persona="Be kind."), orders, "You are bob.", "Be kind."),
            ]
            team, others, *expected = worlds[seed % 4]
            two = played(log, "two", team, others)

        first = compare(one, two).first

        before, after = (first.before, first.after) if first else (0, 0)
        assert [_said(one, before), _said(two, after)] == expected, seed


@given(logs(), logs())
def test_any_logs_can_be_compared_and_neither_is_first(one: list[Entry], two: list[Entry]) -> None:
    there, back = compare(one, two), compare(two, one)

    assert compare(one, one).first is None
    assert there.twins == {before: after for after, before in back.twins.items()}
    assert (there.first is None) == (back.first is None)
    found = [each.before for each in there.divergences if each.before]
    steps = [each.position for each in steps_of(one, agent="", calls=False, mask=str)]
    assert sorted([*found, *there.twins]) == steps


def _said(log: Sequence[Entry], position: int | None) -> str:
    """Return the words of an entry, or bob's instructions that it sets; "" for none."""
    event: Any = log[position - 1].event if position else None
    if event is None:
        return ""
    return str(event.cards["bob"].persona if event.kind == "mode_switch" else event.text)
