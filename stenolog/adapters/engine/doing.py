"""Doing one effect: from its claim to what is appended of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import TYPE_CHECKING

from stenolog.adapters.llms.port import Answer, Model, Progress, Prompt, Said
from stenolog.adapters.tools.keep import result_of
from stenolog.adapters.tools.outcomes import failed, failure
from stenolog.adapters.tools.perform import perform
from stenolog.adapters.tools.port import Call
from stenolog.adapters.tools.port import Outcome as ToolOutcome
from stenolog.domain.effects import ModelCall, ToolRun, late, recorded, ref
from stenolog.domain.errors import Diverged, MachineError, StoredDataError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.parts import text_of
from stenolog.projections.cuts import cut_of
from stenolog.projections.requests import Request

from .asking import Asking, told
from .drafts import Draft
from .editing import noted
from .happenings import Delta
from .listening import BREATH, streamed
from .mentions import mentioned
from .retries import Breaker
from .scribe import Begun, Outcome, key, since

if TYPE_CHECKING:
    from .runner import Runner

LOGGER = logging.getLogger("stenolog.engine")
STOPPED = "stopped"
GOES_ON = "The call was cancelled, but goes on in the background, and may still have effects."
FATAL = (Diverged, StoredDataError, MachineError)
"""What ends a run, since no event can tell it."""


async def do(runner: Runner, begun: Begun) -> None:
    """Do the effect and record what came of it. Raises what no event can tell."""
    if isinstance(begun.effect, ToolRun):
        await _run_tool(runner, begun, begun.effect)
    else:
        await _call_model(runner, begun, begun.effect)


async def _call_model(runner: Runner, begun: Begun, effect: ModelCall) -> None:
    agent = runner.agents[effect.lane.agent]
    assert begun.request is not None, "a model call has its request"
    assert agent.llm is not None, "and a model"
    watch = runner.options.world.stopwatch
    receipt = begun.request.receipt
    asking = Asking(effect, agent.llm.name, receipt, Draft(begun.claim.fence), watch())
    address = effect.lane.address
    _tell_of_cut(runner, address, begun.request)
    # A request that tells everything is for a new session: in the old one it would stand twice.
    session = effect.lane.session if begun.request.policy.history.delta else ""
    prompt = Prompt(begun.request.body, begun.claim.key, address, runner.talk.name, session)

    def take(piece: Said | Progress) -> None:
        if isinstance(piece, Progress):
            asking.note(piece)
            runner.keep(asking.draft)
        else:
            asking.take(piece, watch())
            runner.stream(Delta(address, effect.cause, piece.text, piece.kind, piece.part), asking.draft)

    try:
        event = await _asked(runner, agent.llm, prompt, asking, take)
    except FATAL:
        await runner.write(runner.scribe.claims.release, begun.claim)
        raise
    except asyncio.CancelledError:
        if key(effect) not in runner.stopped:
            raise  # the runner is closed: what has streamed is in the draft
        event = asking.cancelled(watch(), STOPPED)
    await runner.settle(
        partial(recorded, event),
        begun.claim,
        lambda error: partial(recorded, _failure(runner, asking, error)),
    )
    runner.forget(asking.draft)


def _tell_of_cut(runner: Runner, where: str, request: Request) -> None:
    """Tell the operator that a lane is shown less, in each run; the timeline tells the user."""
    if request.cuts > runner.cuts.get(where, 0):
        runner.cuts[where] = request.cuts
        cut = cut_of(request.receipt)
        LOGGER.info("%s at %d: %s is not shown %s", runner.talk.name, request.upto, where, cut)


async def _asked(
    runner: Runner, model: Model, prompt: Prompt, asking: Asking, take: Callable[[Said | Progress], None]
) -> AssistantMessage | LlmError:
    """Ask the model; its answer, or its failure; or that it was not asked."""
    watch, breaker = runner.options.world.stopwatch, runner.options.breaker_of(model)
    while breaker.is_tried:
        await asyncio.sleep(BREATH)
    if left := breaker.check(watch()):
        return asking.held_back(left, runner.talk.log.edge.clock())
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
    breaker: Breaker,
    watch: Callable[[], float],
    model: Model,
    prompt: Prompt,
    take: Callable[[Said | Progress], None],
) -> Answer:
    """What the model answers; the breaker is told how that went."""
    try:
        answer = await streamed(model, prompt, take)
    except Exception as error:
        breaker.failed(told(error)[0], watch())
        raise
    except BaseException:  # it was cancelled
        breaker.stopped()
        raise
    breaker.succeeded()
    return answer


def _mentioned(runner: Runner, asking: Asking, answer: Answer) -> Iterable[str]:
    """The agents that the answer hands on to."""
    settings = runner.scribe.settings
    if not runner.options.mentions:
        return ()
    text = text_of(tuple(answer.parts))
    return mentioned(text, settings.members, asking.effect.lane.agent, settings.turns)


def _failure(runner: Runner, asking: Asking, error: Exception) -> LlmError:
    world, retries = runner.options.world, runner.agents[asking.effect.lane.agent].retries
    return asking.failed(error, world.stopwatch(), runner.talk.log.edge.clock(), retries, world.chance())


async def _run_tool(runner: Runner, begun: Begun, effect: ToolRun) -> None:
    assert begun.call is not None, "a tool runs a call"
    made, lane = begun.call, effect.lane
    tools = runner.tools.get(lane.agent, {})
    call = Call(
        name=made.name,
        arguments=made.arguments,
        key=begun.claim.key,
        lane=lane.address,
        conversation=runner.talk.name,
        id=made.id,
        position=effect.cause,
        talk=runner.talk,
    )
    watch = runner.options.world.stopwatch
    start = watch()
    tool = tools.get(made.name)
    try:
        outcome = await perform(tool, call, list(tools))
    except asyncio.CancelledError:
        if key(effect) not in runner.stopped:
            raise
        if tool is None or tool.stops or tool.repeat == "safe":  # nothing more will come of it
            await runner.write(runner.scribe.claims.release, begun.claim)  # its result says so already
            return
        outcome = failed(GOES_ON)
    took, outcome = round((watch() - start) * 1000), noted(outcome, made, effect.call)

    def result(outcome: ToolOutcome) -> Outcome:
        """The result, made once, though it may be appended anew."""
        put = runner.talk.log.blobs.put
        made_once = cache(partial(result_of, outcome, made.id, ref(effect.call), made.name, put, took))
        return lambda is_wanted: (made_once() if is_wanted else late(made_once()),)

    await runner.settle(result(outcome), begun.claim, lambda error: result(failure(error)))
