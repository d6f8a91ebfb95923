"""Judges of answers that were asked for again, and what their verdicts prove.

Every call is asked as recorded and under the change. The test is exact: it compares both sides call by call,
as repeated draws of the same model, so it needs no assumption about how hard the calls are.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from math import comb, sqrt
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.parts import call_text
from stenolog.projections.json_checks import misfit

Word: TypeAlias = Literal["regressed", "improved", "no difference found"]
Answer: TypeAlias = AssistantMessage | LlmError


def same_calls(recorded: Answer, answer: Answer) -> bool:
    """Return whether two answers call the same tools with the same arguments, in any order.

    Ids, texts, and the order of an object's keys do not count. Two answers without a call are the same.
    """
    mine, other = (Counter(map(call_text, each.tool_calls)) for each in (recorded, answer))
    return mine == other


def fits(schema: Any, recorded: Answer, answer: Answer) -> bool:
    """Return whether an answer's text is JSON of a schema; one that calls tools is judged by its calls."""
    if recorded.tool_calls or answer.tool_calls:
        return same_calls(recorded, answer)
    try:
        return not misfit(json.loads(answer.text), schema)
    except ValueError:
        return False


class Interval(NamedTuple):
    """A share of passed answers, with the bounds that hold it at the stated confidence."""

    passed: int
    of: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """The share that passed; 0 of none."""
        return self.passed / self.of if self.of else 0.0


def interval(passed: int, of: int, confidence: float = 0.95) -> Interval:
    """Return the score interval of Wilson for a share."""
    from statistics import NormalDist  # late: few who import this need it

    if not of:
        return Interval(0, 0, 0.0, 1.0)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, square = passed / of, z * z
    middle = (share + square / (2 * of)) / (1 + square / of)
    half = z / (1 + square / of) * sqrt(share * (1 - share) / of + square / (4 * of * of))
    # At the ends the bound is the share itself, which floats miss.
    low = 0.0 if not passed else max(0.0, middle - half)
    return Interval(passed, of, low, 1.0 if passed == of else min(1.0, middle + half))


class Pair(NamedTuple):
    """One call's passed answers, as recorded and under the change; `group` is what it is counted under."""

    group: str
    passed_before: int
    asked_before: int
    passed_after: int
    asked_after: int


class Comparison(NamedTuple):
    """The verdict on some calls: `before` as recorded, `after` under the change.

    `low` and `high` bound the difference of the shares. `p` is the probability of a difference like this one
    if the change had no effect, corrected for all that were tested together.
    """

    verdict: Word
    calls: int
    before: Interval
    after: Interval
    low: float
    high: float
    p: float


class Judged(NamedTuple):
    """The verdict on a corpus, on all calls at once and by group."""

    verdict: Word
    whole: Comparison
    groups: dict[str, Comparison]


def judged(pairs: Iterable[Pair], confidence: float = 0.95) -> Judged:
    """Return the verdict on all pairs. If nothing changed, all of it is right with this confidence.

    Half of the allowed error is for the whole, the other half for the groups together (Holm).
    """
    given = [pair for pair in pairs if pair.asked_before and pair.asked_after]
    names = sorted({pair.group for pair in given})
    by_name = {name: [pair for pair in given if pair.group == name] for name in names}
    raw = {name: _p(found) for name, found in by_name.items()}
    whole = _compared(given, min(1.0, 2 * _p(given)), confidence)
    groups, worst = {}, 0.0
    for rank, name in enumerate(sorted(names, key=lambda name: raw[name])):
        # A group is never more certain than one before it.
        worst = max(worst, min(1.0, 2 * raw[name] * (len(names) - rank)))
        groups[name] = _compared(by_name[name], worst, confidence)
    words = {whole.verdict, *(each.verdict for each in groups.values())}
    verdicts: tuple[Word, ...] = ("regressed", "improved", "no difference found")
    return Judged(
        next(word for word in verdicts if word in words), whole, {name: groups[name] for name in names}
    )


def _compared(pairs: Sequence[Pair], p: float, confidence: float) -> Comparison:
    before = interval(
        sum(pair.passed_before for pair in pairs), sum(pair.asked_before for pair in pairs), confidence
    )
    after = interval(
        sum(pair.passed_after for pair in pairs), sum(pair.asked_after for pair in pairs), confidence
    )
    word: Word = "no difference found"
    if p <= 1 - confidence:
        # By what the test compares: the passes under the change, against those expected without an effect.
        word = "regressed" if _surplus(pairs) < 0 else "improved"
    # The bounds of both shares, put together as Newcombe does.
    change = after.share - before.share
    down = sqrt((after.share - after.low) ** 2 + (before.high - before.share) ** 2)
    up = sqrt((after.high - after.share) ** 2 + (before.share - before.low) ** 2)
    return Comparison(word, len(pairs), before, after, max(-1.0, change - down), min(1.0, change + up), p)


def _surplus(pairs: Iterable[Pair]) -> float:
    return sum(
        pair.passed_after
        - pair.asked_after * (pair.passed_before + pair.passed_after) / (pair.asked_before + pair.asked_after)
        for pair in pairs
    )


def _p(pairs: Iterable[Pair]) -> float:
    """Return the two-sided probability of so many passes under the change, if it had no effect.

    Given each call's passes on both sides, those under the change are drawn without replacement; over the
    calls they add up (the exact conditional test of stratified tables).
    """
    chances, first, passed = [1.0], 0, 0
    for pair in pairs:
        hits = pair.passed_before + pair.passed_after
        asked = pair.asked_before + pair.asked_after
        least, most = max(0, hits - pair.asked_before), min(hits, pair.asked_after)
        # What is the same for all draws only moves the sum.
        passed += pair.passed_after - least
        if least < most:
            draws = range(least, most + 1)
            ways = [comb(pair.asked_after, each) * comb(pair.asked_before, hits - each) for each in draws]
            chances, first = _trimmed(_added(chances, [way / comb(asked, hits) for way in ways]), first)
    at = passed - first
    return min(1.0, 2 * min(sum(chances[: max(0, at + 1)]), sum(chances[max(0, at) :])))


def _added(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """Return the distribution of the sum of two independent counts."""
    total = [0.0] * (len(one) + len(other) - 1)
    for at, chance in enumerate(one):
        for more, further in enumerate(other):
            total[at + more] += chance * further
    return total


def _trimmed(chances: list[float], first: int) -> tuple[list[float], int]:
    """Return a distribution without its smallest ends, and the count that it begins at."""
    begin = next(at for at, chance in enumerate(chances) if chance > NOTHING)
    end = len(chances) - next(at for at, chance in enumerate(reversed(chances)) if chance > NOTHING)
    return chances[begin:end], first + begin


NOTHING = 1e-25
"""A probability that is left out: thousands of them do not move a verdict."""
