"""Searches along an axis for the point that turned a judge: one value for terminal, page and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stenolog.projections.analysis.retry import Estimate, Interval, ModelQuestion, interval, question
from stenolog.projections.analysis.retry.bisecting import Search, Searched, searched
from stenolog.projections.analysis.text_fate import holds

from .axes import Axis, Variant

if TYPE_CHECKING:
    from stenolog.adapters.asking import Panel
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


class AnswerSearch:
    """A search by answers: the recorded calls of an axis in turn, each asked so many times at most."""

    def __init__(self, axis: Axis, times: int, confidence: float) -> None:
        self.axis, self.times = axis, times
        self.search = Search(len(axis.variants), times * len(axis.cases), confidence)

    def forecast(self, panel: Panel) -> Estimate:
        """Return what it takes at most."""
        from stenolog.adapters.asking.searching import Samples, forecast  # late: a page asks nobody

        return forecast(self.search, Samples(self._question), self.times, panel)

    async def judged(self, panel: Panel) -> Judged:
        """Search for the point from which on more or fewer answers pass. Raises as the panel."""
        from stenolog.adapters.asking.searching import Samples, search_by_asking

        found, micro_usd, is_cut = await search_by_asking(self.search, Samples(self._question), panel)
        return Judged(self.axis, panel.judge.name, ANSWERS, found, self.search.confidence, micro_usd, is_cut)

    def so_far(self, log: Log) -> Judged | None:
        """Return what the answers kept beside a log say, by their calls; None if an end has none."""
        from stenolog.adapters.asking import BY_CALLS
        from stenolog.adapters.asking.answers import open_beside
        from stenolog.adapters.asking.searching import Samples, search_kept

        samples = Samples(self._question)
        with open_beside(log) as answers:
            if answers is None:
                return None
            found, micro_usd, is_cut = search_kept(self.search, samples, answers, BY_CALLS)
        # Those to the unchanged request may be of another question.
        if sum(any(each is not None for each in some) for some in samples.verdicts.values()) < 2:
            return None
        return Judged(self.axis, BY_CALLS.name, ANSWERS, found, self.search.confidence, micro_usd, is_cut)

    def _question(self, variant: int, sample: int) -> ModelQuestion | None:
        axis, number = self.axis, sample % len(self.axis.cases)
        request, case = axis.request(variant, number), axis.cases[number]
        if request is None or not request.ready:
            return None
        model = str(request.body.get("model") or case.answer.model)
        return question(case, request, model, f"{axis.what} {axis.variants[variant].name}")


def sentence(judged: Judged) -> str:
    """Return the result in a sentence."""
    axis, found = judged.axis, judged.searched.found
    before, after = axis.variants[found.before], axis.variants[found.after]
    turned = judged.turned[found.worse]
    span = f"between {axis.what} {before.name} and {after.name}"
    if found.verdict == "found":
        return f"{axis.what} {after.name}: from here on {turned}"
    words = f"no difference found {span} ({judged.judge})"
    if found.verdict == "undecided":
        words = f"{turned} from a point {span} on"
    return f"{words}{'; '.join(['', *_hindrance(judged)])}"


def _hindrance(judged: Judged) -> list[str]:
    """Return why a search could not say more, if there is a reason."""
    axis, (found, verdicts) = judged.axis, judged.searched
    mute = [at for at, some in verdicts.items() if all(verdict is None for verdict in some)]
    if ends := [axis.variants[at].name for at in (found.before, found.after) if at in mute]:
        return [f"no request can be sent at {' and '.join(ends)}"]
    if judged.is_cut:
        return ["it takes more answers than there are"]
    if found.verdict == "undecided" and {*range(found.before + 1, found.after)} <= {*mute}:
        return ["no request can be sent between them"]
    return [] if judged.confidence is None else ["to say more, ask more often"]


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
