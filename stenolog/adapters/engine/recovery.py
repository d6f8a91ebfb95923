"""Recovery of effects whose runner died or was stopped, so that their outcome is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from stenolog.adapters.agents import groups
from stenolog.adapters.store.claims import Claim
from stenolog.adapters.tools.base import BaseTool
from stenolog.domain.effects import MODEL, RunTool, effects, events_for, interrupted_call, unknown_outcome

from .agent import Agent
from .drafts import Drafted, StreamDraft, load
from .effect_names import key
from .journal import Journal, StartedEffect
from .options import Options
from .retries import NO_RETRIES

DIED = "the process that made this call died"
STOPPED = "the engine was stopped"


def recover(
    scribe: Journal,
    claim: Claim,
    agents: Mapping[str, Agent],
    tools: Mapping[str, Mapping[str, BaseTool]],
    options: Options,
    why: str,
    draft: StreamDraft | None = None,
) -> StartedEffect | None:
    """Close an effect that was under way, in the log; or give it back, to be run again under the same key.

    `draft` is what it has streamed, where this process knows; else that is what was kept.
    """
    if claim.effect == MODEL:
        drafted = draft.drafted if draft else load(scribe.claims.drafted(claim))
        if draft is None:  # its engine is not this process, and died: what it started must not go on
            groups.end(drafted.progress.process)
        _model(scribe, claim, agents, options, why, drafted)
        return None
    name = (claim.lane, claim.effect)
    run = next((effect for effect in effects(scribe.state) if key(effect) == name), None)
    if not isinstance(run, RunTool):  # its lane was stopped, and the log says so
        scribe.claims.release(claim)
        return None
    call = scribe.call_of(run)
    tool = tools.get(run.lane.agent, {}).get(call.name)
    if tool is not None and tool.repeat != "never":
        return StartedEffect(run, claim, call=call)
    result = unknown_outcome(run.call, why)
    scribe.settle(lambda _: (result,), claim)
    return None


def _model(
    scribe: Journal,
    claim: Claim,
    agents: Mapping[str, Agent],
    options: Options,
    why: str,
    drafted: Drafted,
) -> None:
    """A model call becomes an error with what had streamed, and is tried again where its retries say so."""
    lane = scribe.state.lane(claim.lane)
    agent = agents.get(lane.agent)
    retries = agent.retries if agent else NO_RETRIES
    attempt = claim.attempt - (why == STOPPED)  # being stopped in good order is nobody's failure
    wait = retries.wait("process_exited", attempt, options.world.chance())
    now = scribe.conversation.log.edge.clock()
    error = interrupted_call(
        lane,
        claim.cause,
        attempt,
        drafted.parts,
        scribe.receipt_of(claim),
        why,
        None if wait is None else now + timedelta(seconds=0 if attempt <= 1 else wait),
    )
    so_far = drafted.progress
    error = replace(error, model=so_far.model, usage=so_far.usage, session=so_far.session)
    waits = lane.status == "awaiting_llm"
    scribe.settle(lambda _: events_for(error, waits), claim)
