"""A binary search whose verdicts are on answers that a model is asked for, within one budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil, log2
from typing import NamedTuple

from stenolog.adapters.conversation.log import Log
from stenolog.projections.analysis.retry import Estimate, ModelQuestion
from stenolog.projections.analysis.retry.bisecting import Bisection, Search, Searched, Wanted, following

from .answers import replies
from .judges import Judge
from .panel import Panel


class AskedSearch(NamedTuple):
    """The result of a search, and what its answers have cost. `is_cut`: it ended for want of an answer."""

    searched: Searched
    micro_usd: int
    is_cut: bool


class Samples:
    """The questions of a search, by variant and sample, and the verdicts on their answers.

    Equal questions of a variant have each an answer of their own.
    """

    def __init__(self, question: Callable[[int, int], ModelQuestion | None]) -> None:
        self.known: dict[tuple[str, int], bool | None] = {}
        """The verdicts, by question and number of the answer; None if the judge said neither."""
        self.verdicts: dict[int, list[bool | None]] = {}
        self._question = question
        self._placed: dict[int, list[tuple[ModelQuestion, int] | None]] = {}
        self._used: dict[int, Counter[str]] = {}

    def upto(self, variant: int, samples: int) -> Sequence[tuple[ModelQuestion, int] | None]:
        """Return the question of each sample of a variant, with the number of its answer."""
        placed, used = self._placed.setdefault(variant, []), self._used.setdefault(variant, Counter())
        for sample in range(len(placed), samples):
            asked = self._question(variant, sample)
            if asked is not None:
                used[asked.key] += 1
            placed.append(None if asked is None else (asked, used[asked.key]))
        return placed[:samples]

    def missing(self, wanted: Wanted) -> Mapping[int, list[ModelQuestion]]:
        """Return the questions to ask, by how many answers each is to have."""
        most: dict[str, tuple[ModelQuestion, int]] = {}
        for variant in wanted.variants:
            for asked, number in filter(None, self.upto(variant, wanted.samples)):
                if (asked.key, number) not in self.known and number > most.get(asked.key, (asked, 0))[1]:
                    most[asked.key] = asked, number
        found: dict[int, list[ModelQuestion]] = {}
        for asked, number in most.values():
            found.setdefault(number, []).append(asked)
        return found

    def take(self, wanted: Wanted) -> bool:
        """Add the verdicts that are known to those of the variants; return whether none is missing."""
        for variant in wanted.variants:
            found = self.verdicts.setdefault(variant, [])
            found += self._next(variant, len(found), wanted.samples)
        return all(len(self.verdicts[variant]) >= wanted.samples for variant in wanted.variants)

    def _next(self, variant: int, known: int, samples: int) -> Iterator[bool | None]:
        for placed in self.upto(variant, samples)[known:]:
            place = placed and (placed[0].key, placed[1])
            if place is not None and place not in self.known:
                return
            yield None if place is None else self.known[place]


async def search_by_asking(search: Search, samples: Samples, panel: Panel) -> AskedSearch:
    """Search by a panel's verdicts on the answers to the samples' questions.

    It asks only for what the next step needs, and ends where the panel's budget does. Errors are the panel's.
    """
    while isinstance(step := following(samples.verdicts, search), Wanted):
        for times, questions in samples.missing(step).items():
            found = await panel.verdicts(questions, times)
            samples.known |= {
                (key, number): verdict
                for key, verdicts in found.items()
                for number, verdict in enumerate(verdicts, 1)
                if verdict is not None or not panel.missing
            }
        if not samples.take(step):
            return _result(step.so_far, samples, panel, is_cut=True)
    return _result(step, samples, panel, is_cut=False)


def _result(found: Bisection, samples: Samples, panel: Panel, *, is_cut: bool) -> AskedSearch:
    return AskedSearch(Searched(found, samples.verdicts), panel.asking.spent, is_cut)


def search_kept(
    search: Search, samples: Samples, answers: Log, judge: Judge, via: str | None = None
) -> AskedSearch:
    """Search as far as the answers that a log has lead; nothing is asked, nor is a judge's model."""
    costs: dict[tuple[str, int], int] = {}
    while isinstance(step := following(samples.verdicts, search), Wanted):
        for times, questions in samples.missing(step).items() if judge.model is None else ():
            for reply in replies(questions, answers, times, via):
                passes = reply.message is not None and judge.passes(reply.question.case.answer, reply.message)
                samples.known[reply.question.key, reply.number] = passes
                costs[reply.question.key, reply.number] = reply.micro_usd or 0
        if not samples.take(step):
            return AskedSearch(Searched(step.so_far, samples.verdicts), sum(costs.values()), is_cut=True)
    return AskedSearch(Searched(step, samples.verdicts), sum(costs.values()), is_cut=False)


def forecast(search: Search, samples: Samples, times: int, panel: Panel) -> Estimate:
    """Return what the rest of a search takes at most: nothing if its answers are kept.

    As dear as the next variant are all that follow; a call is asked so many times.
    """
    store = panel.asking.answers
    kept = search_kept(search, samples, store.log, panel.judge, store.via)
    known, step = len(samples.known), following(samples.verdicts, search)
    if not isinstance(step, Wanted):
        return Estimate(0, known, 0, 0, 0, 0, kept.micro_usd)
    asked = [placed[0] for placed in samples.upto(step.variants[0], search.samples) if placed is not None]
    each = panel.estimate(asked, times)
    full = [verdicts for verdicts in samples.verdicts.values() if len(verdicts) >= search.samples]
    # One that cannot be judged costs nothing, and is not among those that the search needs.
    judged = sum(any(verdict is not None for verdict in verdicts) for verdicts in full)
    variants = max(1, 2 + ceil(log2(max(1, search.variants - 1))) - judged)
    return each._replace(
        calls=each.calls * variants,
        kept=known,
        spent=kept.micro_usd,
        tokens_in=each.tokens_in * variants,
        most_tokens_out=each.most_tokens_out * variants,
        micro_usd=None if each.micro_usd is None else each.micro_usd * variants,
        likely=None if each.likely is None else each.likely * variants,
    )
