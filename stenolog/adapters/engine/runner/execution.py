"""Execution of one effect, from its claim to its result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache, partial
from typing import ParamSpec, Protocol, TypeVar

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.agent import Agent
from stenolog.adapters.engine.journal.effect_names import Key, key
from stenolog.adapters.engine.journal.journal import ClaimedEffect, Instead, Journal, Outcome
from stenolog.adapters.engine.mentions import mentioned
from stenolog.adapters.engine.model_calls.dispatch import DispatchCheck
from stenolog.adapters.engine.model_calls.model_call import (
    DraftKeeper,
    OngoingModelCall,
    StreamDraft,
    classify_error,
)
from stenolog.adapters.engine.model_calls.retries import CircuitBreaker
from stenolog.adapters.engine.model_calls.streaming import BREATH, stream_with_timeouts
from stenolog.adapters.engine.options import Options, StreamDelta
from stenolog.adapters.models.base import Model, ModelRequest, Progress
from stenolog.adapters.store.contract.values import Claim
from stenolog.adapters.tools.base import BaseTool, ToolContext
from stenolog.adapters.tools.base import ToolOutput as ToolOutcome
from stenolog.adapters.tools.calls import with_metadata
from stenolog.adapters.tools.execute import execute
from stenolog.adapters.tools.results import failed, failure, redacted_output, result_of
from stenolog.domain.errors import ModelError, OperationalError, ReplayMismatchError, StoredDataError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.lanes.effects import CallModel, RunTool, events_for, late, ref
from stenolog.domain.lanes.state import LaneState
from stenolog.domain.parts import text_of
from stenolog.projections.formats.deltas import ModelResponse, ResponseDelta
from stenolog.projections.requests.transport import Outgoing

from .cuts import CutWarnings

P = ParamSpec("P")
T = TypeVar("T")
LOGGER = logging.getLogger("stenolog.engine")
STOPPED = "stopped"
GOES_ON = "The call was cancelled, but goes on in the background, and may still have effects."
# They tell of the replay, the file or the machine, and not of the model or the tool.
FATAL = (ReplayMismatchError, StoredDataError, OperationalError)
"""Errors that end a run, since no event can record them."""


class EffectHost(Protocol):
    """The runner, as an effect uses it."""

    conversation: Conversation
    agents: Mapping[str, Agent]
    tools: Mapping[str, Mapping[str, BaseTool]]
    options: Options
    stopped: set[Key]
    """The effects that the log says are not wanted any more."""
    cuts: CutWarnings
    drafts: DraftKeeper
    journal: Journal

    async def write(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call something that touches the log, in its thread, though the caller is cancelled."""

    async def settle(self, outcome: Outcome, claim: Claim, instead: Instead) -> None:
        """Append an effect's result; `instead` replaces one that no log can hold."""

    def stream(self, delta: StreamDelta, draft: StreamDraft) -> None:
        """Pass a piece of an answer on, and store its draft soon."""


async def do(host: EffectHost, claimed: ClaimedEffect) -> None:
    """Do the effect and record its result. Raises errors that no event can express."""
    if isinstance(claimed.effect, RunTool):
        await _run_tool(host, claimed, claimed.effect)
    else:
        await _call_model(host, claimed, claimed.effect)


async def _call_model(host: EffectHost, claimed: ClaimedEffect, effect: CallModel) -> None:
    agent = host.agents[effect.lane.agent]
    assert claimed.request is not None, "a model call has its request"
    assert agent.llm is not None, "and a model"
    watch = host.options.world.stopwatch
    receipt = claimed.request.receipt
    ongoing = OngoingModelCall(effect, agent.llm.name, receipt, StreamDraft(claimed.claim.fence), watch())
    address = effect.lane.address
    host.cuts.warn(address, claimed.request, host.journal)
    # A request that tells everything is for a new session: in the old one it would stand twice.
    session = effect.lane.session if claimed.request.policy.history.delta else ""
    prompt = ModelRequest(claimed.request.body, claimed.claim.key, address, host.conversation.name, session)
    check = DispatchCheck(host.conversation, claimed.request, agent.llm.api)

    def take(piece: ResponseDelta | Progress) -> None:
        if isinstance(piece, Progress):
            ongoing.update(piece)
            host.drafts.keep(ongoing.draft)
        else:
            ongoing.take(piece, watch())
            host.stream(StreamDelta(address, effect.cause, piece.text, piece.kind, piece.part), ongoing.draft)

    async def dispatch(outgoing: Outgoing) -> None:
        ongoing.dispatched(outgoing)
        await _check(host, ongoing, check.compare, outgoing)

    try:
        if host.options.is_checked():
            await _check(host, ongoing, check.begin)
        stream = partial(stream_with_timeouts, agent.llm, prompt, take, dispatch)
        event = await _ask_model(host, agent.llm, stream, ongoing)
    # The request differs from what the log says (see `dispatch`).
    except ModelError as error:
        event = _failure(host, ongoing, error)
    except FATAL:
        # No event says what came of it, so the effect is free to be claimed again.
        await host.write(host.journal.claims.release, claimed.claim)
        raise
    except asyncio.CancelledError:
        # The runner is closed, and the effect is still wanted: what has streamed is in the draft.
        if key(effect) not in host.stopped:
            raise
        event = ongoing.cancelled(watch(), STOPPED)
    await host.settle(
        partial(events_for, event),
        claimed.claim,
        lambda error: partial(events_for, _failure(host, ongoing, error)),
    )
    # Only now: until its answer is appended, the draft is all that a crash would leave of it.
    host.drafts.forget(ongoing.draft)


async def _check(
    host: EffectHost, ongoing: OngoingModelCall, check: Callable[P, None], *args: P.args, **kwargs: P.kwargs
) -> None:
    """Check a request before it is sent; if it differs, drop the receipt. Raises `ModelError`."""
    try:
        await host.write(check, *args, **kwargs)
    except ModelError:
        ongoing.withdrawn()
        raise


async def _ask_model(
    host: EffectHost,
    model: Model,
    stream: Callable[[], Awaitable[ModelResponse]],
    ongoing: OngoingModelCall,
) -> AssistantMessage | LlmError:
    """Return the model's answer or failure, or the error that it was held back."""
    watch, breaker = host.options.world.stopwatch, host.options.breaker_of(model)
    # One call tries a provider that was down, and the others wait for what comes of it.
    while breaker.is_tried:
        await asyncio.sleep(BREATH)
    if left := breaker.check(watch()):
        return ongoing.held_back(left, host.conversation.log.edge.clock())
    ongoing.begun = watch()
    try:
        answer = await _answer(breaker, watch, stream)
        # Such a backend counts the whole session, of which the log has the earlier calls already.
        if answer.usage_is_total and answer.usage is not None:
            spent = await host.write(host.journal.spent, ongoing.effect.lane.address, answer.session)
            answer = answer._replace(usage=answer.usage.since(spent))
        said = ongoing.answered(answer, watch(), _mentioned(host, ongoing, answer))
        return host.agents[said.agent].with_metadata(said)
    except FATAL:
        raise
    except Exception as error:
        return _failure(host, ongoing, error)


async def _answer(
    breaker: CircuitBreaker,
    watch: Callable[[], float],
    stream: Callable[[], Awaitable[ModelResponse]],
) -> ModelResponse:
    """Return the model's answer, and report the outcome to the breaker."""
    try:
        answer = await stream()
    except Exception as error:
        breaker.failed(classify_error(error)[0], watch())
        raise
    # A cancelled call says nothing about the provider, but must not leave the breaker waiting.
    except BaseException:
        breaker.stopped()
        raise
    breaker.succeeded()
    return answer


def _mentioned(host: EffectHost, ongoing: OngoingModelCall, answer: ModelResponse) -> Iterable[str]:
    """Return the agents that the answer hands on to."""
    settings = host.journal.settings
    if not host.options.mentions:
        return ()
    text = text_of(tuple(answer.parts))
    return mentioned(text, settings.members, ongoing.effect.lane.agent, settings.turns)


def _failure(host: EffectHost, ongoing: OngoingModelCall, error: Exception) -> LlmError:
    world, retries = host.options.world, host.agents[ongoing.effect.lane.agent].retries
    return ongoing.failed(
        error, world.stopwatch(), host.conversation.log.edge.clock(), retries, world.chance()
    )


async def why_lost(model: Model, lane: LaneState, conversation: str) -> str:
    """Ask a backend whether it still has a lane's session; return why not, or nothing."""
    try:
        async with asyncio.timeout(model.timeouts.connect):
            return await model.lost(lane.address, conversation, lane.session)
    except TimeoutError:
        return f"it did not say within {model.timeouts.connect:g} s whether it remembers"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


async def _run_tool(host: EffectHost, claimed: ClaimedEffect, effect: RunTool) -> None:
    assert claimed.call is not None, "a tool runs a call"
    made, lane = claimed.call, effect.lane
    tools = host.tools.get(lane.agent, {})
    call = ToolContext(
        name=made.name,
        arguments=made.arguments,
        key=claimed.claim.key,
        lane=lane.address,
        conversation_name=host.conversation.name,
        id=made.id,
        position=effect.cause,
        conversation=host.conversation,
    )
    watch = host.options.world.stopwatch
    start = watch()
    tool = tools.get(made.name)
    try:
        withheld = host.journal.settings.withheld(lane.agent, made.name)
        outcome = failed(withheld) if withheld else await execute(tool, call, list(tools))
    except asyncio.CancelledError:
        if key(effect) not in host.stopped:
            raise
        # Nothing more will come of it, and its result in the log already says that it was cancelled.
        if tool is None or tool.stops or tool.repeat == "safe":
            await host.write(host.journal.claims.release, claimed.claim)
            return
        outcome = failed(GOES_ON)
    took, outcome = round((watch() - start) * 1000), with_metadata(outcome, made, effect.call)

    def result(outcome: ToolOutcome) -> Outcome:
        """Return the result as an `Outcome`."""
        put, keys = host.conversation.log.blobs.put, host.conversation.log.edge.redact
        outcome = redacted_output(outcome, keys) if keys else outcome
        # Made once, though it may be appended again: each time it would put its blobs anew.
        made_once = cache(partial(result_of, outcome, made.id, ref(effect.call), made.name, put, took))
        return lambda is_wanted: (made_once() if is_wanted else late(made_once()),)

    await host.settle(result(outcome), claimed.claim, lambda error: result(failure(error)))
