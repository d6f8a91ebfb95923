"""Searches along an axis for the point that turned a judge: one value for terminal, page and JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from stenolog.adapters.asking.searching import Passes, search_by_asking
from stenolog.projections.analysis.bisection import holds
from stenolog.projections.analysis.retry import Interval, Question, interval, question
from stenolog.projections.analysis.retry.bisecting import Search, Searched, searched

from .axes import Axis, Variant

if TYPE_CHECKING:
    from stenolog.adapters.asking.asking import Models
    from stenolog.adapters.conversation.log import Log

ANSWERS = ("more answers pass", "fewer answers pass")


class Judged(NamedTuple):
    """The result of a search along an axis.

    `turned` says what is otherwise from a point on, for better or worse. `confidence`, of a judge that may
    err, is that of all that is said; `micro_usd` is what its answers cost. `is_cut`: it ended for want of
    an answer.
    """

    axis: Axis
    judge: str
    turned: tuple[str, str]
    searched: Searched
    confidence: float | None = None
    micro_usd: int = 0
    is_cut: bool = False

    @property
    def is_found(self) -> bool:
        """True if a point can be named."""
        return self.searched.found.verdict == "found"


class Tried(NamedTuple):
    """A point that was tried, and how many of its verdicts are good."""

    variant: Variant
    passed: Interval
    is_named: bool


def by_text(axis: Axis, text: str) -> Judged:
    """Search for the point from which on the requests hold a text, or no longer."""

    def judge(variant: int, case: int) -> bool | None:
        request = axis.request(variant, case)
        return None if request is None else holds(request, text)

    search = Search(len(axis.variants), len(axis.cases), exact=True)
    holding = f"holds “{text}”"
    turned = f"the request {holding}", f"the request no longer {holding}"
    return Judged(axis, holding, turned, searched(judge, search))


def questions_of(axis: Axis, model: Callable[[int], str]) -> Callable[[int, int], Question | None]:
    """Return the question of a point and a sample, for the model named for a case; each case in turn."""

    def asked(variant: int, sample: int) -> Question | None:
        number = sample % len(axis.cases)
        request = axis.request(variant, number)
        if request is None or not request.ready:
            return None
        point = f"{axis.what} {axis.variants[variant].name}"
        return question(axis.cases[number], request, model(number), point)

    return asked


async def by_answers(
    axis: Axis,
    judge: str,
    passes: Passes,
    models: Models,
    asked: Callable[[int, int], Question | None],
    *,
    times: int,
    confidence: float,
    budget_micro_usd: int | None,
    answers: Log,
    **options: Any,
) -> Judged:
    """Search for the point from which on more or fewer answers pass, each call asked so many times at most.

    Errors and `options` are those of `ask`.
    """
    search = Search(len(axis.variants), times * len(axis.cases), confidence)
    terms: dict[str, Any] = {"budget_micro_usd": budget_micro_usd, "answers": answers, **options}
    found = await search_by_asking(search, asked, passes, models, **terms)
    return Judged(axis, judge, ANSWERS, found.searched, confidence, found.micro_usd, found.is_cut)


def sentence(judged: Judged) -> str:
    """Return the result in a sentence."""
    axis, found = judged.axis, judged.searched.found
    before, after = axis.variants[found.before], axis.variants[found.after]
    turned = judged.turned[found.worse]
    span = f"between {axis.what} {before.name} and {after.name}"
    if found.verdict == "found":
        return f"{axis.what} {after.name}: from here on {turned}"
    why = "what is between them cannot be built"
    if judged.confidence is not None:
        why = "the budget is spent" if judged.is_cut else "to say which, ask more often"
    if found.verdict == "undecided":
        return f"{turned} from a point {span} on; {why}"
    more = f"; {why}" if judged.is_cut else ""
    return f"no difference found {span}: {judged.judge}{more}"


def tried(judged: Judged) -> list[Tried]:
    """Return the points that were tried, in their order."""
    axis, (found, verdicts) = judged.axis, judged.searched
    known = {at: [each for each in some if each is not None] for at, some in verdicts.items()}
    return [
        Tried(
            axis.variants[at],
            interval(sum(known[at]), len(known[at]), judged.confidence or 0.95),
            judged.is_found and at == found.after,
        )
        for at in sorted(known)
    ]


def judged_data(judged: Judged) -> dict[str, Any]:
    """Return a result as JSON."""
    axis, found = judged.axis, judged.searched.found
    is_noisy = judged.confidence is not None
    return {
        "axis": axis.what,
        "cases": [
            {"conversation": case.conversation, "agent": case.lane.address, "at": case.view}
            for case in axis.cases
        ],
        "judge": judged.judge,
        "confidence": judged.confidence,
        "verdict": found.verdict,
        "before": axis.variants[found.before]._asdict(),
        "after": axis.variants[found.after]._asdict(),
        "worse": found.worse,
        "variants": len(axis.variants),
        "tried": [
            {"name": each.variant.name, "passed": each.passed.passed, "of": each.passed.of}
            | ({"low": each.passed.low, "high": each.passed.high} if is_noisy else {})
            for each in tried(judged)
        ],
        "known_cost_micro_usd": judged.micro_usd,
        "is_cut": judged.is_cut,
    }
