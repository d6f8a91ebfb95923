"""Tokens as billed of conversations that another program had: imported ones, and recorded ones."""

from __future__ import annotations

import json

from stenolog.adapters.conversation.queries import folds
from stenolog.adapters.store.reading import reader
from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.projections.fold import Fold
from stenolog.projections.requests import PIPELINE, LaneId, Request
from stenolog.projections.requests.lane_rates import LaneRates, LearnedRates

from .building import rows_of
from .lanes import origin_of
from .window_cache import windows_of

SHARE = 8
"""A checkpoint is written again once the log has grown by one part in so many."""
JSON = folds.Json(LearnedRates)


def rates_of(conversation: StreamHandle, lane: LaneId, at: int | None = None) -> LaneRates | None:
    """Return a lane's rates up to a position at least; None if stenolog had the conversation.

    They are kept in memory and as checkpoints, and read only new entries.
    """
    if origin_of(conversation) is None:
        return None
    cache, key = windows_of(conversation.log), (conversation.key or 0, lane)
    held = cache.take_rates(key)
    if held is None or not _goes_on(conversation, held):
        held = _resumed(conversation, lane)
    if held.position < (conversation.position if at is None else at):
        held.extend(conversation.entries(held.position, at))
    if not held.usable:
        held = LaneRates(lane).extend(conversation.entries(0, at))
    _keep(conversation, lane, held)
    cache.put_rates(key, held)
    return held


def as_billed(conversation: StreamHandle, request: Request) -> Request:
    """Return a request with its tokens as they are billed; unchanged if stenolog sends it."""
    rates = rates_of(conversation, LaneId(request.agent, request.task), request.at)
    return request if rates is None else rates.counted(request)


def _goes_on(conversation: StreamHandle, held: LaneRates) -> bool:
    if not held.usable or held.position > conversation.position:
        return False
    digest = reader.digest_at(conversation.log.recorder, conversation.stream, held.position)
    return digest.hex() == held.digest


def _resumed(conversation: StreamHandle, lane: LaneId) -> LaneRates:
    found, position = folds.load_checkpoint(conversation, _checkpoints(lane), None)
    if not position:
        return LaneRates(lane)
    digest = reader.digest_at(conversation.log.recorder, conversation.stream, position).hex()
    return LaneRates(lane).resume(found, digest, rows_of(conversation, found.snapshot))


def _keep(conversation: StreamHandle, lane: LaneId, held: LaneRates) -> None:
    """Store the rates once the log has grown by one part in `SHARE`."""
    head = held.position
    if head - held.kept_at < max(folds.WORTH_KEEPING, head // SHARE) or head < conversation.position:
        return
    for entry in conversation.entries(after=head - 1, at=head):
        folds.save_checkpoint(conversation, _checkpoints(lane), entry, held.learned)
    held.kept_at = head


def _checkpoints(lane: LaneId) -> folds.PersistentFold[LearnedRates]:
    name = "rates " + json.dumps([lane.agent, lane.task, PIPELINE])
    fold: Fold[LearnedRates] = Fold(name, LearnedRates(), lambda state, entry: state)
    return folds.PersistentFold(fold, JSON.dump, JSON.load)
