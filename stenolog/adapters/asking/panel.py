"""Verdicts on answers: a model is asked, a judge judges, within one budget."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any, Self, TypeAlias

from stenolog.adapters.conversation.log import Log
from stenolog.adapters.models.base import Model
from stenolog.projections.analysis.retry import Estimate, ModelQuestion, ModelReply

from .asking import Asking, Models, estimate
from .judges import BY_CALLS, Judge

Verdicts: TypeAlias = "Sequence[bool | None]"
"""Verdicts on a question's answers, by number; None for one without."""


class Panel:
    """A model to ask and a judge, for `async with`; the judge's model is asked within the same budget.

    `seen` is called with each reply. The `options` are those of `Asking`.
    """

    def __init__(
        self,
        model: Models,
        answers: Log,
        *,
        judge: Judge = BY_CALLS,
        budget_micro_usd: int | None = None,
        seen: Callable[[ModelReply], object] = lambda reply: None,
        **options: Any,
    ) -> None:
        self.judge = judge
        self.seen = seen
        self._model = model
        self.missing = 0
        """The answers, and judgements of answers, that the last verdicts lack: they were not asked for."""
        self._first: datetime | None = None
        self._last: datetime | None = None
        self._judging: set[str] = set()
        self.asking = Asking(self._model_of, budget_micro_usd, answers, **options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.asking.__aexit__()

    @property
    def days_apart(self) -> int:
        """The whole days between the oldest and the newest answer: a provider may change its model."""
        return (self._last - self._first).days if self._first and self._last else 0

    def estimate(self, questions: Iterable[ModelQuestion], times: int) -> Estimate:
        """Return what the verdicts would take, without asking; a judge's answers as if none were kept."""
        given = list({each.key: each for each in questions}.values())
        store, prices = self.asking.answers, self.asking.prices
        terms = (self._model_of, times, store.log, prices, store.via or "")
        found = estimate(given, *terms)
        if self.judge.model is None or not found.calls:
            return found
        more = [self._asked_judge(each, each.case.answer) for each in given]
        judged = estimate(more, *terms)
        sums: Any = (None if None in both else sum(both) for both in zip(found, judged, strict=True))
        return Estimate(*sums)._replace(dearest=max(found.dearest, judged.dearest))

    async def verdicts(self, questions: Iterable[ModelQuestion], times: int) -> Mapping[str, Verdicts]:
        """Return the verdicts on so many answers of each question, by its key.

        An error that the request would meet again has not passed.
        """
        given = {each.key: each for each in questions}
        found: dict[str, list[bool | None]] = {key: [None] * times for key in given}
        judged: list[tuple[ModelReply, ModelQuestion]] = []
        self.missing = times * len(given)
        async for reply in self._replies(given.values(), times):
            self.missing -= reply.is_final
            if reply.is_final and (reply.message is None or self.judge.model is None):
                found[reply.question.key][reply.number - 1] = self._passes(reply)
            elif reply.message is not None:
                judged.append((reply, self._asked_judge(reply.question, reply.message)))
        asked_judge = [asked for _, asked in judged]
        said = {
            each.question.key: self.judge.verdict(each.message)
            async for each in self._replies(asked_judge, 1)
            if each.is_final
        }
        self.missing += sum(each.key not in said for each in asked_judge)
        for reply, asked in judged:
            found[reply.question.key][reply.number - 1] = said.get(asked.key)
        return found

    async def _replies(
        self, questions: Iterable[ModelQuestion], times: int
    ) -> AsyncGenerator[ModelReply, None]:
        async with aclosing(self.asking.replies(questions, times)) as replies:
            async for reply in replies:
                self.seen(reply)
                self._first = min(self._first or reply.time, reply.time)
                self._last = max(self._last or reply.time, reply.time)
                yield reply

    def _passes(self, reply: ModelReply) -> bool:
        recorded, answer = reply.question.case.answer, reply.message
        return answer is not None and self.judge.passes(recorded, answer)

    def _asked_judge(self, question: ModelQuestion, answer: Any) -> ModelQuestion:
        made = self.judge.question(question, answer)
        self._judging.add(made.key)
        return made

    def _model_of(self, question: ModelQuestion) -> Model:
        if question.key in self._judging and self.judge.model is not None:
            return self.judge.model
        return self._model if isinstance(self._model, Model) else self._model(question)
