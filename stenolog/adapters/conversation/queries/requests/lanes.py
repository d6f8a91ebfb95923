"""Facts of a lane and its conversation: API, first event, origin."""

from __future__ import annotations

from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.domain.events import Event
from stenolog.domain.values import Origin
from stenolog.projections.requests import LaneId
from stenolog.projections.requests.pipeline.lane_apis import lane_apis

from .. import folds

LANE_APIS = folds.persistent(lane_apis)


def api_of(conversation: StreamHandle, lane: LaneId, at: int | None = None) -> str:
    """Return the name of a lane's API."""
    return folds.fold_at(conversation, LANE_APIS, at).of(lane)


def opening_of(conversation: StreamHandle) -> Event | None:
    """Return the first event; None if empty."""
    entries = conversation.entries(at=min(1, conversation.position))
    return next((entry.event for entry in entries), None)


def origin_of(conversation: StreamHandle) -> Origin | None:
    """Return a conversation's origin in an import or a recording; None if stenolog wrote it."""
    source = getattr(opening_of(conversation), "source", None)
    return source if isinstance(source, Origin) else None
