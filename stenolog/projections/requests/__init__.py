"""Requests of agents: the request of a lane at a position, and the explanation of every part."""

from __future__ import annotations

from stenolog.projections.formats import DEFAULT_API
from stenolog.projections.messages.explanation import Omission, RequestPart
from stenolog.projections.messages.message import PIPELINE

from .choosing import check_takes_part, lanes
from .incremental.series import build, every_request
from .pipeline.lane import LaneId
from .pipeline.lane_apis import asked_api
from .request import Request

__all__ = [
    "DEFAULT_API",
    "PIPELINE",
    "LaneId",
    "Omission",
    "Request",
    "RequestPart",
    "asked_api",
    "build",
    "check_takes_part",
    "every_request",
    "lanes",
]
