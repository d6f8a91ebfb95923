"""Tokens as billed of conversations that another program had: imported ones, and recorded ones."""

from __future__ import annotations

from stenolog.adapters.store.reading import reader
from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.projections.requests import LaneId, Request
from stenolog.projections.requests.lane_rates import LaneRates

from .lanes import origin_of
from .window_cache import windows_of


def rates_of(conversation: StreamHandle, lane: LaneId, at: int | None = None) -> LaneRates | None:
    """Return a lane's rates up to a position at least; None if stenolog had the conversation.

    They are kept in memory, and read only new entries.
    """
    if origin_of(conversation) is None:
        return None
    cache, key = windows_of(conversation.log), (conversation.key or 0, lane)
    held = cache.take_rates(key)
    if held is None or not _goes_on(conversation, held):
        held = LaneRates(lane)
    if held.position < (conversation.position if at is None else at):
        held.extend(conversation.entries(held.position, at))
    if not held.usable:
        held = LaneRates(lane).extend(conversation.entries(0, at))
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
