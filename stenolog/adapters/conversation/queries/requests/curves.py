"""The context of a lane over time: only new entries are read and measured.

A tracer is kept in memory, and its findings as a checkpoint for the next process.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from math import inf
from time import perf_counter

from stenolog.adapters.conversation.queries import folds
from stenolog.adapters.store.reading import reader
from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.projections.context_curve import ContextCurve
from stenolog.projections.context_curve.samples import as_billed
from stenolog.projections.context_curve.sparkline import context_points
from stenolog.projections.context_curve.tracer import ContextTracer, TracedContext
from stenolog.projections.fold import Fold
from stenolog.projections.requests import PIPELINE, LaneId, check_takes_part
from stenolog.projections.views.usage import usage

from .lanes import LANE_APIS, api_of
from .rates import rates_of
from .token_counters import COUNTERS
from .window_cache import windows_of

SHARE = 8
"""A checkpoint is written again once the log has grown by one part in so many."""
NOTHING = TracedContext()
JSON = folds.Json(TracedContext)
USAGE = folds.persistent(usage)
POINTS = folds.persistent(context_points)


def context_curve(
    conversation: StreamHandle, agent: str, task: str = "", at: int | None = None, seconds: float = inf
) -> ContextCurve:
    """Return `Conversation.context_curve`'s result.

    `seconds` limits the time of measuring; the next call continues.
    """
    begun = perf_counter()

    def is_enough() -> bool:
        return perf_counter() - begun > seconds

    lane, head = LaneId(agent, task), conversation.position
    cache = windows_of(conversation.log)
    key = (conversation.key or 0, lane)
    # Whoever comes meanwhile finds none, and makes one of its own.
    tracer = cache.take_tracer(key)
    is_same = tracer is not None and folds.is_at(conversation, tracer.position, tracer.digest)
    if tracer is None or not is_same or not _goes_on(conversation, tracer, head, is_enough):
        tracer = _fresh(conversation, lane, head, is_enough)
    end = head if at is None else at
    _keep(conversation, tracer, head)
    rates = rates_of(conversation, lane)
    samples = tracer.samples if rates is None else as_billed(tracer.samples, rates)
    if end < head:
        samples = [sample for sample in samples if sample.position <= end]
    # A cut behind the last request has cut nothing that was sent.
    last = samples[-1].at if samples else 0
    curve = ContextCurve(
        conversation.name,
        agent,
        task,
        tracer.api_name,
        end,
        samples,
        [mark for mark in tracer.marks if mark.position <= (last if mark.kind == "cut" else end)],
        tracer.waiting,
    )
    if not samples:
        check_takes_part(conversation.entries(), agent)
    cache.put_tracer(key, tracer)
    return curve


def read_once(conversation: StreamHandle) -> None:
    """Update the folds of a context page, reading new entries once."""
    folds.folds_at(conversation, (USAGE, LANE_APIS, POINTS))


def small_curves(conversation: StreamHandle) -> dict[str, tuple[int, ...]]:
    """Return how full each lane's context was; of many lanes, the first to answer."""
    return {where: lane.points for where, lane in folds.fold_at(conversation, POINTS).lanes.items()}


def small_curve(conversation: StreamHandle) -> tuple[tuple[int, ...], int]:
    """Return the context's tokens at some times, and the number of entries read.

    No request is built.
    """
    _, begun = folds.load_checkpoint(conversation, POINTS, None)
    return folds.fold_at(conversation, POINTS).points, conversation.position - begun


def _goes_on(
    conversation: StreamHandle, tracer: ContextTracer, head: int, is_enough: Callable[[], bool]
) -> bool:
    """Read new entries; return whether the requests' API is the same."""
    before = len(tracer.samples)
    tracer.extend(head, is_enough)
    return len(tracer.samples) == before or api_of(conversation, tracer.lane, head) == tracer.api


def _fresh(
    conversation: StreamHandle, lane: LaneId, head: int, is_enough: Callable[[], bool]
) -> ContextTracer:
    state, position = folds.load_checkpoint(conversation, _checkpoints(lane), head)
    api = state.api if 0 < position == head else api_of(conversation, lane, head)
    tracer = ContextTracer(lane, api, conversation.entries, COUNTERS, conversation.log.blobs)
    if state.api == api:
        tracer.resume(state)
        tracer.digest = reader.digest_at(conversation.log.recorder, conversation.stream, position).hex()
    tracer.kept_at = tracer.position
    tracer.extend(head, is_enough)
    return tracer


def _keep(conversation: StreamHandle, tracer: ContextTracer, head: int) -> None:
    if tracer.waiting or not tracer.is_certain:
        return
    if head - tracer.kept_at >= max(folds.WORTH_KEEPING, head // SHARE):
        for entry in conversation.entries(after=head - 1, at=head):
            folds.save_checkpoint(conversation, _checkpoints(tracer.lane), entry, tracer.traced)
        tracer.kept_at = head


def _checkpoints(lane: LaneId) -> folds.PersistentFold[TracedContext]:
    name = "context " + json.dumps([lane.agent, lane.task, PIPELINE])
    fold: Fold[TracedContext] = Fold(name, NOTHING, lambda state, entry: state)
    return folds.PersistentFold(fold, JSON.dump, JSON.load)
