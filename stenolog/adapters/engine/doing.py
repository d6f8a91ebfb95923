"""Doing one effect: from its claim to what is appended of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from stenolog.adapters.llms.port import Model, Prompt, Said
from stenolog.adapters.tools.keep import result_of
from stenolog.adapters.tools.perform import perform
from stenolog.adapters.tools.port import Call
from stenolog.domain.effects import ModelCall, ToolRun, failed, ref, said
from stenolog.domain.errors import Diverged, MachineError, StoredDataError
from stenolog.domain.events import Event
from stenolog.domain.state import State

from .asking import Asking, streamed, told
from .drafts import Draft
from .happenings import Delta
from .mentions import mentioned
from .scribe import Begun, key

if TYPE_CHECKING:
    from .runner import Runner

STOPPED = "stopped"
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
    prompt = Prompt(begun.request.body, begun.claim.key, address, runner.talk.name, effect.lane.session)

    def take(piece: Said) -> None:
        asking.take(piece, watch())
        runner.stream(Delta(address, effect.cause, piece.text, piece.kind), asking.draft)

    try:
        outcome = await _asked(runner, agent.llm, prompt, asking, take)
    except FATAL:
        await runner.write(runner.scribe.claims.release, begun.claim)
        raise
    except asyncio.CancelledError:
        if key(effect) not in runner.stopped:
            raise  # the runner is closed: what has streamed is in the draft
        stopped = asking.cancelled(watch(), STOPPED)
        outcome = lambda state: failed(state, stopped)  # noqa: E731
    runner.forget(asking.draft)
    await runner.settle(outcome, begun.claim)


async def _asked(
    runner: Runner, model: Model, prompt: Prompt, asking: Asking, take: Callable[[Said], None]
) -> Callable[[State], Sequence[Event]]:
    """Ask the model; what is to be recorded of its answer, or of its failure."""
    options, agent = runner.options, runner.agents[asking.effect.lane.agent]
    watch, breaker = options.world.stopwatch, options.breaker_of(model)
    try:
        breaker.check(watch())
        answer = await streamed(model, prompt, take)
    except FATAL:
        raise
    except Exception as error:
        breaker.failed(told(error)[0], watch())
        now = runner.talk.log.edge.clock()
        event = asking.failed(error, watch(), now, agent.retries, options.world.chance())
        return lambda state: failed(state, event)
    breaker.succeeded()
    settings = runner.scribe.settings
    text = "\n".join(part.text for part in answer.parts if part.type == "text") if options.mentions else ""
    to = mentioned(text, settings.members, asking.effect.lane.agent, settings.turns)
    spoken = asking.answered(answer, watch(), to)
    return lambda state: said(state, spoken)


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
    try:
        outcome = await perform(tools.get(made.name), call, list(tools))
    except asyncio.CancelledError:
        if key(effect) not in runner.stopped:
            raise
        await runner.write(runner.scribe.claims.release, begun.claim)  # its result says so already
        return
    took = round((watch() - start) * 1000)
    put = runner.talk.log.blobs.put
    result = await runner.write(result_of, outcome, made.id, ref(effect.call), made.name, put, took)
    await runner.settle(lambda state: (result,), begun.claim)
