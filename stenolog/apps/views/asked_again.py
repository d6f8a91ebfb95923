"""Recorded calls, asked again as they were and under a change: one value for terminal and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from stenolog.domain.events import AssistantMessage
from stenolog.projections.analysis.retry import (
    Case,
    Change,
    Interval,
    Judged,
    ModelQuestion,
    Pair,
    Retried,
    interval,
    judged,
    question,
    retried,
    same_calls,
)
from stenolog.projections.analysis.retry.judging import Comparison
from stenolog.projections.requests import Request

from .figures import counted
from .retries import Corpus, means_of

if TYPE_CHECKING:
    from stenolog.adapters.asking import Verdicts

NO_TOOL = "no tool"
"""The group of the calls that called no tool."""


class AskedCall(NamedTuple):
    """One recorded call, as its questions: as recorded, and under the change if that alters the request."""

    case: Case
    before: ModelQuestion
    after: ModelQuestion | None


class AskedAgain(NamedTuple):
    """The verdicts on recorded calls that were asked again.

    `pairs` are those of the calls whose request the change alters; `unaltered` counts the others, which a
    change cannot affect. `left_out` have no answer to compare with, or cannot be sent. `missing` answers were
    not asked for: the budget ended, or the provider was down. Without a change, `judged` is None.
    `days_apart` are those between the oldest and the newest answer.
    """

    change: str
    judge: str
    times: int
    confidence: float
    pairs: tuple[tuple[Case, Pair], ...]
    unaltered: int
    left_out: int
    missing: int
    micro_usd: int
    again: Interval
    judged: Judged | None
    days_apart: int = 0

    @property
    def failed(self) -> bool:
        """True if the change is worse, or not all was asked."""
        return bool(self.missing) or (self.judged is not None and self.judged.verdict == "regressed")


class ToAsk(NamedTuple):
    """The calls to be asked again, and how many the change leaves as they are, or that cannot be asked."""

    calls: tuple[AskedCall, ...]
    unaltered: int
    left_out: int

    @property
    def questions(self) -> list[ModelQuestion]:
        """All questions: each call's both sides one after the other, so that neither runs out first."""
        return [each for call in self.calls for each in (call.before, call.after) if each is not None]


def to_ask(found: Iterable[Retried], change: str) -> ToAsk:
    """Return the questions that built calls are; `change` is in words, "" if there is none."""
    calls: list[AskedCall] = []
    unaltered = left_out = 0
    for case, then, now, *_ in found:
        if not _is_askable(then) or not _is_askable(now) or not isinstance(case.answer, AssistantMessage):
            left_out += 1
            continue
        assert then is not None, "it is askable"
        assert now is not None, "it is, too"
        before, after = question(case, then, _model(then, case)), None
        if change:
            after = question(case, now, _model(now, case), change)
            if after.key == before.key:
                unaltered += 1
                continue
        calls.append(AskedCall(case, before, after))
    return ToAsk(tuple(calls), unaltered, left_out)


def _is_askable(request: Request | None) -> bool:
    return request is not None and request.ready


def _model(request: Request, case: Case) -> str:
    return str(request.body.get("model") or case.answer.model)


def asked_again(
    asked: ToAsk,
    verdicts: Mapping[str, Verdicts],
    *,
    change: str,
    judge: str,
    times: int,
    confidence: float,
    missing: int,
    micro_usd: int,
    days_apart: int = 0,
) -> AskedAgain:
    """Return the verdict on the answers to all calls."""
    pairs = []
    for case, before, after in asked.calls:
        sides = [_counts(verdicts[each.key]) if each is not None else (0, 0) for each in (before, after)]
        pairs.append((case, Pair(case.tool or NO_TOOL, *sides[0], *sides[1])))
    given = [pair for _, pair in pairs]
    again = interval(
        sum(pair.passed_before for pair in given), sum(pair.asked_before for pair in given), confidence
    )
    found = judged(given, confidence) if change else None
    left = (asked.unaltered, asked.left_out, missing, micro_usd)
    return AskedAgain(change, judge, times, confidence, tuple(pairs), *left, again, found, days_apart)


def kept_again(corpus: Corpus, change: Change) -> AskedAgain | None:
    """Return the verdict on the answers that are kept beside a log, by their calls; None if there are none.

    Nothing is asked.
    """
    from stenolog.adapters.asking.answers import open_beside, replies

    log, words = corpus.conversation.log, change.in_words
    with open_beside(log) as answers:
        if answers is None:
            return None
        calls = to_ask(retried(corpus.cases, corpus.entries, change, means_of(log)), words)
        verdicts: dict[str, list[bool | None]] = {each.key: [] for each in calls.questions}
        spent = 0
        for reply in replies(calls.questions, answers):
            said = reply.message is not None and same_calls(reply.question.case.answer, reply.message)
            verdicts[reply.question.key].append(said)
            spent += reply.micro_usd or 0
    times = max(map(len, verdicts.values()), default=0)
    if not times:
        return None
    terms: dict[str, Any] = {"judge": "calls", "times": times, "confidence": 0.95, "missing": 0}
    return asked_again(calls, verdicts, change=words, micro_usd=spent, **terms)


def _counts(verdicts: Verdicts) -> tuple[int, int]:
    known = [each for each in verdicts if each is not None]
    return sum(known), len(known)


def worst(found: AskedAgain, most: int = 10) -> list[tuple[Case, Pair]]:
    """Return the calls that pass less often under the change, the worst first."""
    lost = [(case, pair) for case, pair in found.pairs if _loss(pair) > 0]
    return sorted(lost, key=lambda each: (-_loss(each[1]), each[0][:3]))[:most]


def _loss(pair: Pair) -> float:
    if not pair.asked_before or not pair.asked_after:
        return 0.0
    return pair.passed_before / pair.asked_before - pair.passed_after / pair.asked_after


def verdict_in_words(found: AskedAgain) -> str:
    """Return the verdict in a line."""
    if found.judged is None:
        share = f"{_share(found.again)} of {counted(found.again.of, 'answer')} pass again"
        return f"{share} {_range(found.again.low, found.again.high)}"
    whole = found.judged.whole
    words = found.judged.verdict
    points = f"{100 * (whole.after.share - whole.before.share):+.1f} points"
    bounds = f"({100 * whole.low:+.1f} to {100 * whole.high:+.1f})"
    return f"{words}: {points} {bounds} over {counted(whole.calls, 'call')}"


def rows(found: Judged) -> list[tuple[str, str, str, str, str]]:
    """Return the table of a verdict: the whole, then each tool."""
    return [_row("all", found.whole), *(_row(name, each) for name, each in found.groups.items())]


def _row(name: str, each: Comparison) -> tuple[str, str, str, str, str]:
    sides = (f"{_share(side)} of {side.of:,}" for side in (each.before, each.after))
    return (name, *sides, f"{100 * each.low:+.0f} to {100 * each.high:+.0f}", each.verdict)  # type: ignore[return-value]


def _share(found: Interval) -> str:
    return f"{found.share:.0%}"


def _range(low: float, high: float) -> str:
    return f"({low:.0%} to {high:.0%})"


def asked_data(found: AskedAgain) -> dict[str, Any]:
    """Return the verdict as JSON."""
    return {
        "change": found.change,
        "judge": found.judge,
        "times": found.times,
        "confidence": found.confidence,
        "verdict": found.judged.verdict if found.judged else None,
        "as_recorded": _interval_data(found.again),
        "all": _comparison_data(found.judged.whole) if found.judged else None,
        "by_tool": {name: _comparison_data(each) for name, each in _groups(found)},
        "calls": [_call_data(case, pair) for case, pair in found.pairs],
        "unaltered": found.unaltered,
        "left_out": found.left_out,
        "missing": found.missing,
        "micro_usd": found.micro_usd,
        "days_apart": found.days_apart,
    }


def _groups(found: AskedAgain) -> Sequence[tuple[str, Comparison]]:
    return [*found.judged.groups.items()] if found.judged else []


def _interval_data(found: Interval) -> dict[str, Any]:
    return {"passed": found.passed, "of": found.of, "low": found.low, "high": found.high}


def _comparison_data(each: Comparison) -> dict[str, Any]:
    sides = {"as_recorded": _interval_data(each.before), "now": _interval_data(each.after)}
    difference = {"low": each.low, "high": each.high, "p": each.p}
    return {"verdict": each.verdict, "calls": each.calls, **sides, "difference": difference}


def _call_data(case: Case, pair: Pair) -> dict[str, Any]:
    place = {"conversation": case.conversation, "lane": case.lane.address, "position": case.position}
    sides = [("as_recorded", pair.passed_before, pair.asked_before)]
    sides += [("now", pair.passed_after, pair.asked_after)] if pair.asked_after else []
    return {**place, "tool": case.tool, **{name: {"passed": passed, "of": of} for name, passed, of in sides}}
