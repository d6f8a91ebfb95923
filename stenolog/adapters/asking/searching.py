"""A binary search whose verdicts are on answers that a model is asked for, within one budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from stenolog.adapters.conversation.log import Log
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.projections.analysis.retry.bisecting import Search, Searched, Wanted, following
from stenolog.projections.analysis.retry.questions import Question, Reply

from .asking import Models, ask

Passes: TypeAlias = "Callable[[Question, AssistantMessage | LlmError], bool]"
"""A judge of an answer to a question."""


class AskedSearch(NamedTuple):
    """The result of a search, and what its answers have cost. `is_cut`: it ended for want of an answer."""

    searched: Searched
    micro_usd: int
    is_cut: bool


class _Samples:
    """The questions of a search, and their answers; equal questions of a variant have each its own."""

    def __init__(self, question: Callable[[int, int], Question | None]) -> None:
        self.replies: dict[tuple[str, int], Reply] = {}
        """The final replies, by question and number."""
        self.costs: dict[tuple[str, int], int] = {}
        self._question = question
        self._placed: dict[int, list[tuple[Question, int] | None]] = {}
        self._used: dict[int, Counter[str]] = {}

    def upto(self, variant: int, samples: int) -> Sequence[tuple[Question, int] | None]:
        """Return the question of each sample of a variant, with the number of its answer."""
        placed, used = self._placed.setdefault(variant, []), self._used.setdefault(variant, Counter())
        for sample in range(len(placed), samples):
            asked = self._question(variant, sample)
            if asked is not None:
                used[asked.key] += 1
            placed.append(None if asked is None else (asked, used[asked.key]))
        return placed[:samples]

    def missing(self, wanted: Wanted) -> Mapping[int, list[Question]]:
        """Return the questions to ask, by how many answers each is to have."""
        most: dict[str, tuple[Question, int]] = {}
        for variant in wanted.variants:
            for asked, number in filter(None, self.upto(variant, wanted.samples)):
                if (asked.key, number) not in self.replies and number > most.get(asked.key, (asked, 0))[1]:
                    most[asked.key] = asked, number
        found: dict[int, list[Question]] = {}
        for asked, number in most.values():
            found.setdefault(number, []).append(asked)
        return found

    def take(self, reply: Reply) -> None:
        """Keep a reply, and what it cost."""
        place = reply.question.key, reply.number
        self.costs[place] = reply.micro_usd or 0
        if reply.is_final:
            self.replies[place] = reply

    def cost_beside(self, questions: Iterable[Question], times: int) -> int:
        """Return the cost of all replies but the first `times` to these questions."""
        keys = {each.key for each in questions}
        return sum(cost for (key, number), cost in self.costs.items() if key not in keys or number > times)

    def verdicts(self, variant: int, known: int, samples: int, passes: Passes) -> Iterator[bool | None]:
        """Yield the verdicts on a variant after the `known` ones, up to the first without an answer."""
        for placed in self.upto(variant, samples)[known:]:
            if placed is None:
                yield None
                continue
            reply = self.replies.get((placed[0].key, placed[1]))
            answer = reply and (reply.message or reply.error)
            if answer is None:
                return
            yield passes(placed[0], answer)


async def search_by_asking(
    search: Search,
    question: Callable[[int, int], Question | None],
    passes: Passes,
    model: Models,
    *,
    budget_micro_usd: int | None,
    answers: Log,
    **options: Any,
) -> AskedSearch:
    """Search with the judge `passes` of answers to the question of each variant and sample.

    The answers are kept, so a next start asks only for what is missing. It ends where the budget, which is
    for all of them, has no room for the next call. `options` and errors are those of `ask`.
    """
    samples, verdicts = _Samples(question), dict[int, list[bool | None]]()
    while isinstance(step := following(verdicts, search), Wanted):
        for times, questions in samples.missing(step).items():
            left = None
            if budget_micro_usd is not None:
                # What these questions have cost so far is counted when they are asked.
                left = max(0, budget_micro_usd - samples.cost_beside(questions, times))
            terms = {"times": times, "budget_micro_usd": left, "answers": answers, **options}
            async for reply in ask(questions, model, **terms):
                samples.take(reply)
        for variant in step.variants:
            known = verdicts.setdefault(variant, [])
            known += samples.verdicts(variant, len(known), step.samples, passes)
        if any(len(verdicts[variant]) < step.samples for variant in step.variants):
            return AskedSearch(Searched(step.so_far, verdicts), sum(samples.costs.values()), is_cut=True)
    return AskedSearch(Searched(step, verdicts), sum(samples.costs.values()), is_cut=False)
