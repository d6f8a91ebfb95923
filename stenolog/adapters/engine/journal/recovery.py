"""Recovery of effects with unknown outcome, and patience with a busy store."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta

from stenolog.adapters.agents import groups
from stenolog.adapters.engine.agent import Agent
from stenolog.adapters.engine.model_calls.model_call import Drafted, StreamDraft, load_draft
from stenolog.adapters.engine.model_calls.retries import NO_RETRIES
from stenolog.adapters.engine.options import Options
from stenolog.adapters.store.contract.values import Claim
from stenolog.adapters.tools.base import BaseTool
from stenolog.domain.errors import StoreTimeoutError
from stenolog.domain.lanes.effects import (
    MODEL,
    RunTool,
    as_recorded,
    effects,
    interrupted_call,
    unknown_outcome,
)

from .journal import Journal
from .work import ClaimedEffect, key

DIED = "the process that made this call died"
STOPPED = "the program stopped here"
UNPROTECTED = "the store could not be reached for so long that another process could have made this call"


def recover(
    journal: Journal,
    claim: Claim,
    agents: Mapping[str, Agent],
    tools: Mapping[str, Mapping[str, BaseTool]],
    options: Options,
    why: str,
    draft: StreamDraft | None = None,
) -> ClaimedEffect | None:
    """Close an interrupted effect in the log, or return it to run again under the same key.

    `draft` is what this process has of the answer; None: the stored draft counts.
    """
    if claim.effect == MODEL:
        drafted = draft.drafted if draft else load_draft(journal.claims.drafted(claim))
        # Without a draft in memory its engine was another process, and died: what that started must end.
        if draft is None:
            groups.end(drafted.progress.process)
        _model(journal, claim, agents, options, why, drafted)
        return None
    name = (claim.lane, claim.effect)
    run = next((effect for effect in effects(journal.state) if key(effect) == name), None)
    # Its lane was stopped, and the log says so already.
    if not isinstance(run, RunTool):
        journal.claims.release(claim)
        return None
    call = journal.call_of(run)
    tool = tools.get(run.lane.agent, {}).get(call.name)
    # The tool may be run again: it changes nothing, or it tells calls of one idempotency key apart.
    if tool is not None and tool.repeat != "never":
        return ClaimedEffect(run, claim, call=call)
    result = unknown_outcome(run.call, why)
    journal.append_decided(lambda: (result,), claim)
    return None


def _model(
    journal: Journal,
    claim: Claim,
    agents: Mapping[str, Agent],
    options: Options,
    why: str,
    drafted: Drafted,
) -> None:
    """Record a model call as an error with its partial text; its retries decide on the next attempt.

    One that was stopped in good order is made again by the next run.
    """
    # Nothing had come of it, so there is nothing to record.
    if why == STOPPED and drafted == Drafted():
        journal.claims.release(claim)
        return
    lane = journal.state.lane(claim.lane)
    agent = agents.get(lane.agent)
    retries = agent.retries if agent else NO_RETRIES
    # Being stopped in good order is no failure of the model, so it is no attempt.
    attempt = claim.attempt - (why in (STOPPED, UNPROTECTED))
    wait = 0.0 if why == STOPPED else retries.wait("process_exited", attempt, options.world.chance())
    now = journal.conversation.log.edge.clock()
    error = interrupted_call(
        lane,
        claim.cause,
        attempt,
        drafted.parts,
        journal.receipt_of(claim),
        why,
        # After a first crash there is nothing to wait for; a process that keeps dying waits longer each time.
        None if wait is None else now + timedelta(seconds=0 if attempt <= 1 else wait),
    )
    so_far = drafted.progress
    error = replace(error, model=so_far.model, usage=so_far.usage, session=so_far.session)
    if why == STOPPED:
        error = replace(error, category="cancelled")
    recorded = as_recorded(error, is_wanted=lane.status == "awaiting_llm")
    journal.append_decided(lambda: (recorded,), claim)


# A store that is busy past its deadline must not turn a finished call into one of unknown outcome.
PATIENCE = 60.0
"""Seconds for which a runner that is closed waits for a busy store."""
PAUSE = 0.05


def pause_after(failures: int) -> float:
    """Return the seconds to wait after so many failures in a row."""
    return float(min(1.0, PAUSE * 2 ** min(failures, 10)))


def write_patiently(write: Callable[[], object]) -> None:
    """Write, and retry while the store is busy. Raises `StoreTimeoutError` after `PATIENCE` seconds."""
    end, failures = time.monotonic() + PATIENCE, 0
    while True:
        try:
            write()
            return
        except StoreTimeoutError:
            if time.monotonic() > end:
                raise
        time.sleep(pause_after(failures))
        failures += 1
