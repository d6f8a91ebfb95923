"""Requests of agents: the exact request of a lane at a position, and the explanation of every part."""

from __future__ import annotations

from .apis import APIS, Api
from .builder import DEFAULT_API, check_takes_part, lanes
from .explanation import Omission, RequestPart
from .incremental.session import build, every_request
from .pipeline.lane import LaneId
from .request import PIPELINE, Request
from .validation import register_api

__all__ = [
    "APIS",
    "DEFAULT_API",
    "PIPELINE",
    "Api",
    "LaneId",
    "Omission",
    "Request",
    "RequestPart",
    "build",
    "check_takes_part",
    "every_request",
    "lanes",
    "register_api",
]
