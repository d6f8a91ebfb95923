"""Execution of one effect, from its claim to its result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from stenolog.adapters.engine.journal.card_patches import FailedCall, patch_after, recovered
from stenolog.adapters.engine.journal.journal import Journal
from stenolog.adapters.engine.journal.live_state import LiveState
from stenolog.adapters.engine.journal.recovery import pause_after
from stenolog.adapters.engine.journal.work import ClaimedEffect, FinishedEffect
from stenolog.adapters.engine.mentions import mentioned
from stenolog.adapters.engine.model_calls.dispatch import DispatchCheck
from stenolog.adapters.engine.model_calls.model_call import (
    DraftKeeper,
    OngoingModelCall,
    StreamDraft,
    classify_error,
)
from stenolog.adapters.engine.model_calls.retries import ALONE, LaneBreaker
from stenolog.adapters.engine.model_calls.streaming import BREATH, stream_with_timeouts
from stenolog.adapters.engine.options import StreamDelta
from stenolog.adapters.models.base import Model, ModelRequest, Progress, RecordedModel
from stenolog.adapters.store.contract.values import Claim
from stenolog.adapters.tools.base import BaseTool
from stenolog.domain.errors import (
    ModelError,
    OperationalError,
    ReplayMismatchError,
    StoredDataError,
    StoreTimeoutError,
)
from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch
from stenolog.domain.lanes.effects import CallModel, EffectResult, RunTool
from stenolog.domain.lanes.state import LaneState
from stenolog.domain.parts import text_of
from stenolog.domain.verdict import verdict_of
from stenolog.projections.formats.deltas import ModelResponse, ResponseDelta
from stenolog.projections.requests.transport import Outgoing

from .cuts import CutWarnings

if TYPE_CHECKING:
    from .judging import AnswerJudge

LOGGER = logging.getLogger("stenolog.engine")
P = ParamSpec("P")
T = TypeVar("T")


class LogThread:
    """One thread for the log: the journal needs no lock, and a slow disk stops no stream."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="stenolog-run")

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Call a function in the thread, to its end even if the caller is cancelled."""
        called = asyncio.get_running_loop().run_in_executor(self._pool, partial(function, *args, **kwargs))
        # Shielded: an effect whose end is not appended would keep its claim.
        return asyncio.shield(called)

    async def close(self, last: Callable[[], None]) -> None:
        """Call `last` after all other calls, and end the thread."""
        # Begun before anything is awaited, so that it is done though this caller may be cancelled.
        done = asyncio.get_running_loop().run_in_executor(self._pool, last)
        self._pool.shutdown(wait=False)
        await asyncio.shield(done)


STOPPED = "stopped"
# They tell of the replay, the file or the machine, and not of the model or the tool.
FATAL = (ReplayMismatchError, StoredDataError, OperationalError)
"""Errors that end a run, since no event can record them."""


class EffectExecutor:
    """Executor of a runner's claimed effects. `emit` passes on a piece of an answer as it streams."""

    def __init__(
        self,
        journal: Journal,
        tools: Mapping[str, Mapping[str, BaseTool]],
        thread: LogThread,
        drafts: DraftKeeper,
        emit: Callable[[StreamDelta], None],
    ) -> None:
        self.journal = journal
        self.tools = tools
        self.thread = thread
        self.drafts = drafts
        self.emit = emit
        self.cuts = CutWarnings(journal.conversation, journal.agents, journal.options.warned)

    async def do(self, claimed: ClaimedEffect) -> None:
        """Do the effect and record its result. Raises errors that no event can express."""
        if isinstance(claimed.effect, RunTool):
            tools = self.tools.get(claimed.effect.lane.agent, {})
            from .tool_run import ToolRun  # late: many agents have no tools

            finished = await ToolRun(self.journal, self.thread.call, tools, claimed, claimed.effect).run()
            if finished is not None:
                await self.settle(claimed.claim, finished)
        else:
            await _ModelCall(self, claimed, claimed.effect).run()

    async def settle(self, claim: Claim, finished: FinishedEffect) -> None:
        """Append an effect's result and remove its claim. Raises `StoreError`; see `Journal.settle`."""
        for failures in count():
            try:
                await self.thread.call(self.journal.settle, claim, finished)
                return
            # Tried again without end, since the outcome of an effect cannot be had a second time.
            except StoreTimeoutError:
                await asyncio.sleep(pause_after(failures))


class _ModelCall:
    """One call of a model, from its request to the event of its answer or failure."""

    def __init__(self, executor: EffectExecutor, claimed: ClaimedEffect, effect: CallModel) -> None:
        journal = executor.journal
        agent = journal.agents[effect.lane.agent]
        assert claimed.request is not None, "a model call has its request"
        assert claimed.model is not None, "and a model"
        self.executor = executor
        self.journal = journal
        self.call_log = executor.thread.call
        self.options = journal.options
        self.watch = journal.options.world.stopwatch
        self.claim = claimed.claim
        self.request = claimed.request
        self.lane = effect.lane
        self.agent = agent
        self.model = claimed.model
        self.made = FailedCall(agent, self.model, self.request, effect.lane)
        draft = StreamDraft(claimed.claim.fence)
        self.ongoing = OngoingModelCall(effect, self.model.name, self.request.receipt, draft, self.watch())
        self.ongoing.earlier = agent.models.index(self.model) if agent.fallbacks else 0
        self.judge = self._judge_of(effect)
        self.dispatch_check = DispatchCheck(journal.conversation, self.request, self.model.api)

    def _judge_of(self, effect: CallModel) -> AnswerJudge | None:
        """Return the judge of the request and the answer; None if there is nothing to judge by."""
        agent, is_recorded = self.agent, isinstance(self.model, RecordedModel)
        # An answer that was held back is there also for an agent that has no check any more.
        was_held = effect.lane.category == "refused"
        if agent.output is None and not (agent.checks or is_recorded or was_held):
            return None
        from .judging import AnswerJudge  # late, as most agents have neither

        return AnswerJudge(self.journal, self.call_log, effect, agent, self.model, self._mentioned)

    async def run(self) -> None:
        self.executor.cuts.warn(self.lane.address, self.request, self.journal)
        event = await self._event()
        if event is None:
            await self.call_log(self.journal.release, self.claim)
            return
        finished = FinishedEffect(lambda: self._recovered(event), self._failure, self._then)
        await self.executor.settle(self.claim, finished)
        # Only now: until its answer is appended, the draft is all that a crash would leave of it.
        self.executor.drafts.forget(self.ongoing.draft)

    async def _event(self) -> AssistantMessage | LlmError | None:
        """Return the answer, or the error that says why there is none; None if the call is to be made anew.

        Raises `FATAL` errors.
        """
        try:
            if self.options.is_checked():
                await self._check(self.dispatch_check.begin)
            unsent = await self.judge.before(self.request) if self.judge is not None else None
            if unsent is not None:
                return unsent
            return await self._answer() if await self._is_in_time() else None
        except FATAL:
            # No event says what came of it, so the effect is free to be claimed again.
            await self.call_log(self.journal.release, self.claim)
            raise
        except asyncio.CancelledError:
            # The runner is closed, and the effect is still wanted: what has streamed is in the draft.
            if not self.journal.is_unwanted(self.claim):
                raise
            return self.ongoing.cancelled(self.watch(), STOPPED)
        except Exception as error:
            return self._failure(error)

    async def _is_in_time(self) -> bool:
        return not isinstance(self.model, RecordedModel) or await self.model.in_time(
            self.lane.address, self.request.at
        )

    async def _answer(self) -> AssistantMessage | LlmError:
        """Return the model's answer, or the error that it was held back. Raises what the model raises."""
        where = self.model, self.journal.conversation.name, self.lane.address
        breaker = self.options.lane_breaker(*where)
        # One call tries a provider that was down, and the others wait for what comes of it.
        while breaker.shared.is_tried:
            await asyncio.sleep(BREATH)
        if left := breaker.check(self.watch()):
            return self.ongoing.held_back(left, self._now())
        self.ongoing.begun, own = self.watch(), breaker.own
        try:
            answer = await self._stream(breaker)
        finally:
            if breaker.own is not own:
                self.options.keep(breaker, *where)
        # Such a backend counts the whole session, of which the log has the earlier calls already.
        if answer.usage_is_total and answer.usage is not None:
            spent = await self.call_log(self.journal.spent, self.lane.address, answer.session)
            answer = answer._replace(usage=answer.usage.since(spent))
        to = self._mentioned(text_of(tuple(answer.parts)))
        said = self.agent.with_metadata(self.ongoing.answered(answer, self.watch(), to))
        return said if self.judge is None else await self.judge.judged(said)

    async def _stream(self, breaker: LaneBreaker) -> ModelResponse:
        """Return the model's answer, and report the outcome to the breaker."""
        # A request that tells everything is for a new session: in the old one it would stand twice.
        session = self.lane.session if self.request.policy.history.delta else ""
        name = self.journal.conversation.name
        prompt = ModelRequest(self.request.body, self.claim.key, self.lane.address, name, session)
        try:
            answer = await stream_with_timeouts(self.model, prompt, self._take, self._dispatch)
        except Exception as error:
            category, words, _ = classify_error(error)
            if breaker.failed(category, self.watch()):
                whom = f"{name}: {self.lane.address}" if category in ALONE else "all agents"
                for_, why = f"{breaker.seconds_open(self.watch()):.0f} s", f"{category}: {words}"
                LOGGER.warning("%s: %s is not called for %s: %s", whom, self.model.name, for_, why)
            raise
        # A cancelled call says nothing about the provider, but must not leave the breaker waiting.
        except BaseException:
            breaker.stopped()
            raise
        breaker.succeeded()
        return answer

    def _take(self, piece: ResponseDelta | Progress) -> None:
        ongoing, effect = self.ongoing, self.ongoing.effect
        if isinstance(piece, Progress):
            ongoing.update(piece)
        else:
            ongoing.take(piece, self.watch())
            self.executor.emit(
                StreamDelta(self.lane.address, effect.cause, piece.text, piece.kind, piece.part)
            )
        self.executor.drafts.keep(ongoing.draft)

    async def _dispatch(self, outgoing: Outgoing) -> None:
        self.ongoing.dispatched(outgoing)
        await self._check(self.dispatch_check.compare, outgoing)

    async def _check(self, check: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Check the request; if it differs, drop the receipt. Raises `ModelError`."""
        try:
            await self.call_log(check, *args, **kwargs)
        except ModelError:
            self.ongoing.withdrawn()
            raise

    def _mentioned(self, text: str) -> Iterable[str]:
        settings, by_name = self.journal.settings, self.options.mentions
        if by_name is False:
            return ()
        return mentioned(text, settings.members, self.lane.agent, settings.turns, by_name=bool(by_name))

    def _recovered(self, event: AssistantMessage | LlmError) -> AssistantMessage | LlmError:
        # What a check or a type did not accept is no fault of the model's provider.
        if isinstance(event, AssistantMessage) or verdict_of(event):
            return event
        return recovered(event, self.made, self._now())

    def _then(self, event: EffectResult, live: LiveState) -> Iterable[Event]:
        """Yield the answer that counts in its place; the patch of the card that a failure brings about."""
        if isinstance(self.model, RecordedModel):
            self.model.appended(self.lane.address, live.state.position + 1)
        if self.judge is not None:
            yield from self.judge.edits(event, live)
        card = live.settings.cards.get(self.lane.agent)
        if isinstance(event, LlmError) and not verdict_of(event) and card is not None:
            after = patch_after(event, self.made, card)
            if after is not None:
                yield ModeSwitch(cards={self.lane.agent: after})

    def _failure(self, error: Exception) -> LlmError:
        chance = self.options.world.chance()
        return self.ongoing.failed(error, self.watch(), self._now(), self.agent.retries, chance)

    def _now(self) -> datetime:
        return self.journal.conversation.log.edge.clock()


async def why_lost(model: Model, lane: LaneState, conversation: str) -> str:
    """Ask a backend whether it still has a lane's session; return why not, or nothing."""
    try:
        async with asyncio.timeout(model.timeouts.connect):
            return await model.lost(lane.address, conversation, lane.session)
    except TimeoutError:
        return f"it did not say within {model.timeouts.connect:g} s whether it remembers"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
