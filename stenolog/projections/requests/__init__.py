"""What each agent is sent: the exact request of a lane at a position, and the explanation of every part."""

from __future__ import annotations

from .build import DEFAULT_WIRE, build, every_request, lanes
from .model import PIPELINE, Dropped, Explained, Request
from .visible import Lane
from .wires import WIRES, Wire

__all__ = [
    "DEFAULT_WIRE",
    "PIPELINE",
    "WIRES",
    "Dropped",
    "Explained",
    "Lane",
    "Request",
    "Wire",
    "build",
    "every_request",
    "lanes",
]
