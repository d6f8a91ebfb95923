"""The API that a lane's answers came by, from a checkpointed fold: the log is not read back for it."""

from __future__ import annotations

from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.projections.analysis.provider_bill import lane_apis
from stenolog.projections.requests import LaneId

from . import folds

LANE_APIS = folds.persistent(lane_apis)


def api_of(conversation: StreamHandle, lane: LaneId, at: int | None = None) -> str:
    """Return the name of the API that a lane is asked by."""
    return folds.fold_at(conversation, LANE_APIS, at).of(lane)
