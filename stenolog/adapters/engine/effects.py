"""Doing one effect: from its claim to what is appended of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import TYPE_CHECKING

from stenolog.adapters.llms.base import Model, ModelCall, ModelResponse, Progress, ResponseDelta
from stenolog.adapters.tools.base import ToolContext
from stenolog.adapters.tools.base import ToolOutput as ToolOutcome
from stenolog.adapters.tools.execute import execute
from stenolog.adapters.tools.keep import result_of
from stenolog.adapters.tools.results import failed, failure
from stenolog.domain.effects import CallModel, RunTool, events_for, late, ref
from stenolog.domain.errors import OperationalError, ReplayMismatchError, StoredDataError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.parts import text_of
from stenolog.projections.cuts import cut_of
from stenolog.projections.requests import Request

from .drafts import StreamDraft
from .editing import with_metadata
from .effect_names import key
from .journal import Outcome, StartedEffect, since
from .mentions import mentioned
from .model_call import ModelCallRecord, classify_error
from .retries import CircuitBreaker
from .run_events import StreamDelta
from .streaming import BREATH, stream_with_timeouts

if TYPE_CHECKING:
    from .runner import Runner

LOGGER = logging.getLogger("stenolog.engine")
STOPPED = "stopped"
GOES_ON = "The call was cancelled, but goes on in the background, and may still have effects."
FATAL = (ReplayMismatchError, StoredDataError, OperationalError)
"""What ends a run, since no event can tell it."""


async def do(runner: Runner, begun: StartedEffect) -> None:
    """Do the effect and record what came of it. Raises what no event can tell."""
    if isinstance(begun.effect, RunTool):
        await _run_tool(runner, begun, begun.effect)
    else:
        await _call_model(runner, begun, begun.effect)


async def _call_model(runner: Runner, begun: StartedEffect, effect: CallModel) -> None:
    agent = runner.agents[effect.lane.agent]
    assert begun.request is not None, "a model call has its request"
    assert agent.llm is not None, "and a model"
    watch = runner.options.world.stopwatch
    receipt = begun.request.receipt
    asking = ModelCallRecord(effect, agent.llm.name, receipt, StreamDraft(begun.claim.fence), watch())
    address = effect.lane.address
    _tell_of_cut(runner, address, begun.request)
    # A request that tells everything is for a new session: in the old one it would stand twice.
    session = effect.lane.session if begun.request.policy.history.delta else ""
    prompt = ModelCall(begun.request.body, begun.claim.key, address, runner.conversation.name, session)

    def take(piece: ResponseDelta | Progress) -> None:
        if isinstance(piece, Progress):
            asking.note(piece)
            runner.keep(asking.draft)
        else:
            asking.take(piece, watch())
            runner.stream(
                StreamDelta(address, effect.cause, piece.text, piece.kind, piece.part), asking.draft
            )

    try:
        event = await _ask_model(runner, agent.llm, prompt, asking, take)
    except FATAL:
        await runner.write(runner.scribe.claims.release, begun.claim)
        raise
    except asyncio.CancelledError:
        if key(effect) not in runner.stopped:
            raise  # the runner is closed: what has streamed is in the draft
        event = asking.cancelled(watch(), STOPPED)
    await runner.settle(
        partial(events_for, event),
        begun.claim,
        lambda error: partial(events_for, _failure(runner, asking, error)),
    )
    runner.forget(asking.draft)


def _tell_of_cut(runner: Runner, where: str, request: Request) -> None:
    """Tell the operator that a lane is shown less, in each run; the timeline tells the user."""
    if request.cuts > runner.cuts.get(where, 0):
        runner.cuts[where] = request.cuts
        cut = cut_of(request.receipt)
        LOGGER.info("%s at %d: %s is not shown %s", runner.conversation.name, request.at, where, cut)


async def _ask_model(
    runner: Runner,
    model: Model,
    prompt: ModelCall,
    asking: ModelCallRecord,
    take: Callable[[ResponseDelta | Progress], None],
) -> AssistantMessage | LlmError:
    """Ask the model; its answer, or its failure; or that it was not asked."""
    watch, breaker = runner.options.world.stopwatch, runner.options.breaker_of(model)
    while breaker.is_tried:
        await asyncio.sleep(BREATH)
    if left := breaker.check(watch()):
        return asking.held_back(left, runner.conversation.log.edge.clock())
    asking.begun = watch()
    try:
        answer = await _answer(breaker, watch, model, prompt, take)
        if answer.usage_is_total and answer.usage is not None:
            spent = await runner.write(runner.scribe.spent, prompt.lane, answer.session)
            answer = answer._replace(usage=since(spent, answer.usage))
        said = asking.answered(answer, watch(), _mentioned(runner, asking, answer))
        return runner.agents[said.agent].noted(said)
    except FATAL:
        raise
    except Exception as error:
        return _failure(runner, asking, error)


async def _answer(
    breaker: CircuitBreaker,
    watch: Callable[[], float],
    model: Model,
    prompt: ModelCall,
    take: Callable[[ResponseDelta | Progress], None],
) -> ModelResponse:
    """What the model answers; the breaker is told how that went."""
    try:
        answer = await stream_with_timeouts(model, prompt, take)
    except Exception as error:
        breaker.failed(classify_error(error)[0], watch())
        raise
    except BaseException:  # it was cancelled
        breaker.stopped()
        raise
    breaker.succeeded()
    return answer


def _mentioned(runner: Runner, asking: ModelCallRecord, answer: ModelResponse) -> Iterable[str]:
    """The agents that the answer hands on to."""
    settings = runner.scribe.settings
    if not runner.options.mentions:
        return ()
    text = text_of(tuple(answer.parts))
    return mentioned(text, settings.members, asking.effect.lane.agent, settings.turns)


def _failure(runner: Runner, asking: ModelCallRecord, error: Exception) -> LlmError:
    world, retries = runner.options.world, runner.agents[asking.effect.lane.agent].retries
    return asking.failed(
        error, world.stopwatch(), runner.conversation.log.edge.clock(), retries, world.chance()
    )


async def _run_tool(runner: Runner, begun: StartedEffect, effect: RunTool) -> None:
    assert begun.call is not None, "a tool runs a call"
    made, lane = begun.call, effect.lane
    tools = runner.tools.get(lane.agent, {})
    call = ToolContext(
        name=made.name,
        arguments=made.arguments,
        key=begun.claim.key,
        lane=lane.address,
        conversation_name=runner.conversation.name,
        id=made.id,
        position=effect.cause,
        conversation=runner.conversation,
    )
    watch = runner.options.world.stopwatch
    start = watch()
    tool = tools.get(made.name)
    try:
        outcome = await execute(tool, call, list(tools))
    except asyncio.CancelledError:
        if key(effect) not in runner.stopped:
            raise
        if tool is None or tool.stops or tool.repeat == "safe":  # nothing more will come of it
            await runner.write(runner.scribe.claims.release, begun.claim)  # its result says so already
            return
        outcome = failed(GOES_ON)
    took, outcome = round((watch() - start) * 1000), with_metadata(outcome, made, effect.call)

    def result(outcome: ToolOutcome) -> Outcome:
        """The result, made once, though it may be appended anew."""
        put = runner.conversation.log.blobs.put
        made_once = cache(partial(result_of, outcome, made.id, ref(effect.call), made.name, put, took))
        return lambda is_wanted: (made_once() if is_wanted else late(made_once()),)

    await runner.settle(result(outcome), begun.claim, lambda error: result(failure(error)))
