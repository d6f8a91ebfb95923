"""The one place that asks a model outside of a run: within a budget, several calls at once, resumable.

    async with Asking(model, 2_000_000, log) as asking:
        async for reply in asking.replies(questions, times=5):
            print(reply.number, reply.message)

The budget is for all answers to the questions, those that an earlier start has kept among them. So a start
after a kill never spends more than the first was allowed to.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple, Self, TypeAlias

from stenolog.adapters.conversation.log import Log
from stenolog.adapters.engine.journal.recovery import pause_after
from stenolog.adapters.engine.model_calls.model_call import LONGEST, OngoingModelCall, StreamDraft
from stenolog.adapters.engine.model_calls.retries import RetryPolicy
from stenolog.adapters.engine.model_calls.streaming import stream_with_timeouts
from stenolog.adapters.engine.options import WORLD, Runtime
from stenolog.adapters.engine.runner.execution import LogThread
from stenolog.adapters.models.base import Model, ModelRequest, Progress
from stenolog.adapters.models.by_hand import with_own_names
from stenolog.adapters.providers.prices import listed
from stenolog.adapters.store.contract.values import Claim
from stenolog.domain.errors import CallerError, InvalidEventError, StoreTimeoutError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.lanes.effects import CallModel
from stenolog.domain.lanes.state import LaneState
from stenolog.projections.analysis.retry.questions import Estimate, ModelQuestion, ModelReply, is_final
from stenolog.projections.formats import format_of
from stenolog.projections.formats.deltas import ResponseDelta
from stenolog.projections.prices import Prices
from stenolog.projections.requests.transport import Outgoing

from .answers import AnswerLog, Kept, Outcome, receipt, reply
from .highest_price import UNBILLED, cost_of, highest, likely, most_output

Outcomes: TypeAlias = AsyncGenerator[tuple[ModelQuestion, int, Kept], None]
Models: TypeAlias = Model | Callable[[ModelQuestion], Model]
"""The model to ask, or the one of each question."""
RETRIES = RetryPolicy()
FAILURES = 3
"""Calls that fail in a row before the provider counts as down; one may fail for its length."""


class Due(NamedTuple):
    """One answer that is missing; `attempts` have failed before."""

    question: ModelQuestion
    number: int
    attempts: int


def estimate(
    questions: Iterable[ModelQuestion],
    model: Models,
    times: int,
    answers: Log,
    prices: Prices | None = None,
    via: str = "",
) -> Estimate:
    """Return what asking would take, without asking. Raises `CallerError` for a model of another API."""
    found, store, prices = Estimate(0, 0, 0, 0, 0, 0), AnswerLog(answers, via), prices or listed()
    for question in {each.key: each for each in questions}.values():
        asked = _model_of(question, model)
        kept = {number: each for number, each in store.outcomes(question).items() if number <= times}
        done = sum(is_final(each.outcome) for each in kept.values())
        calls, usual = times - done, question.case.answer.usage
        out = most_output(question.request)
        most = highest(question.request, asked, prices)
        usually = likely(question.request, asked, prices, min(out, usual.output) if usual else out)
        found = Estimate(
            found.calls + calls,
            found.kept + done,
            found.tokens_in + calls * question.request.tokens,
            found.most_tokens_out + calls * out,
            _sum(found.micro_usd, most, calls),
            _sum(found.likely, usually, calls),
            found.spent + sum(each.micro_usd or 0 for each in kept.values()),
            max(found.dearest, (most or 0) if calls else 0),
        )
    return found


def _sum(so_far: int | None, each: int | None, calls: int) -> int | None:
    if not calls:
        return so_far
    return None if so_far is None or each is None else so_far + calls * each


def _model_of(question: ModelQuestion, model: Models) -> Model:
    """Return the model of a question. Raises `CallerError` if it has another API."""
    found = model if isinstance(model, Model) else model(question)
    api, asked = format_of(found.api).name, question.request.api.partition("@")[0]
    if api != asked:
        raise CallerError(f"{found.name}: expected a model of the API {asked}, found one of {api}")
    return found


class Asking:
    """Asking within one budget, for `async with`: the money spent and reserved, and the calls under way.

    A call begins only if its highest price still fits the budget; if one does not fit, nothing more is
    asked. Nor is it after three calls in a row that failed, retries and all, with errors that say nothing
    about a request. The next start goes on.
    """

    def __init__(
        self,
        model: Models,
        budget_micro_usd: int | None,
        answers: Log,
        at_once: int = 4,
        retries: RetryPolicy = RETRIES,
        prices: Prices | None = None,
        world: Runtime = WORLD,
        via: str = "",
    ) -> None:
        self.model = model
        self.budget = budget_micro_usd
        self.answers = AnswerLog(answers, via)
        self.at_once = at_once
        self.retries = retries
        self.prices = prices or listed()
        self.world = world
        self.most: dict[str, int | None] = {}
        """The highest price of one call, by its question's key."""
        self.costs: dict[tuple[str, int], int] = {}
        """Micro-dollars spent on each answer, kept ones too, by its question's key and its number."""
        self.reserved = 0
        self.failed = 0
        """The calls in a row that failed, retries and all, with errors that say nothing about a request."""
        self._thread = LogThread()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._thread.close(self.answers.close)

    @property
    def spent(self) -> int:
        """The micro-dollars that all answers so far have cost."""
        return sum(self.costs.values())

    async def replies(
        self, questions: Iterable[ModelQuestion], times: int
    ) -> AsyncGenerator[ModelReply, None]:
        """Yield so many answers of each question: those kept, then each new one.

        A question that is given twice is asked once. Raises `CallerError` if a model has another API than its
        question, if a budget is given and a model has no price, and if another process is asking.
        """
        shown: dict[str, list[ModelQuestion]] = {}
        for each in questions:
            shown.setdefault(each.key, []).append(each)
        due, kept = await self._thread.call(self.begin, [same[0] for same in shown.values()], times)
        for question, number, outcome in kept:
            for each in shown[question.key]:
                yield reply(each, number, outcome)
        async with aclosing(self.work(due)) as outcomes:
            async for question, number, outcome in outcomes:
                for each in shown[question.key]:
                    yield reply(each, number, outcome)

    def begin(
        self, questions: Sequence[ModelQuestion], times: int
    ) -> tuple[list[Due], list[tuple[ModelQuestion, int, Kept]]]:
        """Settle what a killed process left, and return what is missing and what is kept."""
        for question in questions:
            model = _model_of(question, self.model)
            self.most[question.key] = highest(question.request, model, self.prices)
        found: list[tuple[ModelQuestion, int, Kept]] = []
        due: list[Due] = []
        self.answers.settle_dead([(question, self.most[question.key]) for question in questions])
        all_kept = {question.key: self.answers.outcomes(question) for question in questions}
        # The first answers of all before the second of any: a budget that ends early leaves none without.
        for number in range(1, times + 1):
            for question in questions:
                kept = all_kept[question.key].get(number)
                self.costs[question.key, number] = (kept and kept.micro_usd) or 0
                if kept is not None and is_final(kept.outcome):
                    found.append((question, number, kept))
                else:
                    self._check_price(question)
                    due.append(Due(question, number, kept.attempts if kept else 0))
        return due, found

    def _check_price(self, question: ModelQuestion) -> None:
        if self.most[question.key] is None and self.budget is not None:
            name = _model_of(question, self.model).name
            raise CallerError(
                f"{name}: no price is known, so no budget can be kept: give its price, or no budget"
            )

    async def work(self, due: Sequence[Due]) -> Outcomes:
        """Ask for what is missing, and yield each outcome as it comes."""
        waiting = [*reversed(due)]
        under_way: set[asyncio.Task[tuple[ModelQuestion, int, Kept]]] = set()
        try:
            while under_way or waiting:
                while waiting and len(under_way) < self.at_once and self._begins(waiting[-1].question):
                    under_way.add(asyncio.create_task(self._answered(waiting.pop())))
                if not under_way:
                    return
                done, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    yield task.result()
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    def _begins(self, question: ModelQuestion) -> bool:
        """Reserve a call's highest price, and return whether it may begin."""
        most = self.most[question.key] or 0
        if self.failed >= FAILURES or (most and not self._fits(most)):
            return False
        self.reserved += most
        return True

    def _fits(self, more: int) -> bool:
        return self.budget is None or self.spent + self.reserved + more <= self.budget

    async def _answered(self, due: Due) -> tuple[ModelQuestion, int, Kept]:
        question, number, before = due
        most, cost = self.most[question.key], None
        attempt = 0
        while True:
            attempt += 1
            event, paid, wait = await self._attempt(due, attempt)
            cost = paid if cost is None else cost + (paid or 0)
            self.costs[question.key, number] += paid or 0
            if is_final(event) or wait is None or (most and not self._fits(0)):
                self._note(event, is_given_up=wait is None)
                self.reserved -= most or 0
                ended = self.answers.log.edge.clock()
                return question, number, Kept(event, cost, before + attempt, ended)
            await self.world.sleep(wait)

    def _note(self, event: Outcome, *, is_given_up: bool) -> None:
        """Note an outcome: after several failures in a row, or with a refused key, no other call is made."""
        if is_final(event):
            self.failed = 0
        elif is_given_up:
            refused = isinstance(event, LlmError) and event.category == "unauthorized"
            self.failed += FAILURES if refused else 1

    async def _attempt(self, due: Due, attempt: int) -> tuple[Outcome, int | None, float | None]:
        """Make one call and append its outcome; return it, its cost, and the wait until a retry."""
        question, number, before = due
        model, request = _model_of(question, self.model), question.request
        claim = await self._thread.call(self.answers.claim, question, number, before + attempt)
        effect = CallModel(LaneState(request.agent, request.task), 1, attempt)
        call = OngoingModelCall(effect, model.name, receipt(question), StreamDraft(0), self.world.stopwatch())
        event = await self._outcome(model, question, claim, call)
        paid = cost_of(event.usage, event.model, model, self.prices)
        if paid is None and isinstance(event, LlmError) and event.category in UNBILLED:
            paid = 0
        paid = self.most[question.key] if paid is None else paid
        event = await self._append(question, claim, replace(event, meta=self.answers.about(number, paid)))
        if isinstance(event, AssistantMessage) or event.retry_at is None:
            return event, paid, None
        return event, paid, max(0.0, (event.retry_at - self.answers.log.edge.clock()).total_seconds())

    async def _outcome(
        self, model: Model, question: ModelQuestion, claim: Claim, call: OngoingModelCall
    ) -> Outcome:
        request = question.request
        prompt = ModelRequest(request.body, claim.key, claim.lane, question.key)

        def take(piece: ResponseDelta | Progress) -> None:
            if isinstance(piece, Progress):
                call.update(piece)
            else:
                call.take(piece, self.world.stopwatch())

        async def dispatch(outgoing: Outgoing) -> None:
            call.dispatched(outgoing)

        try:
            answer = await stream_with_timeouts(model, prompt, take, dispatch)
            said = call.answered(answer, self.world.stopwatch(), ())
            return with_own_names(said, request.tool_names)
        except Exception as error:
            now = self.answers.log.edge.clock()
            return call.failed(error, self.world.stopwatch(), now, self.retries, self.world.chance())

    async def _append(self, question: ModelQuestion, claim: Claim, event: Outcome) -> Outcome:
        """Append an outcome, and return it; an error in its place if no log can hold it."""
        for failures in count():
            try:
                await self._thread.call(self.answers.append, question, claim, event)
                break
            # The answer is paid for, so it is tried without end.
            except StoreTimeoutError:
                await asyncio.sleep(pause_after(failures))
            except InvalidEventError as error:
                fields: dict[str, Any] = {"agent": event.agent, "task": event.task, "meta": event.meta}
                words = str(error)[:LONGEST]
                event = LlmError(category="invalid_response", message=words, cause=1, **fields)
        return event
