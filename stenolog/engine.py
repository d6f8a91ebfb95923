"""The engine: a team of agents that works on conversations, crashes anywhere and goes on."""

from .adapters.engine.agent import Agent
from .adapters.engine.happenings import Delta, Happening, Recorded
from .adapters.engine.options import Options
from .adapters.engine.retries import Breaker, Retries
from .adapters.engine.team import Team
from .adapters.engine.world import World
from .domain.limits import Limits

__all__ = [
    "Agent",
    "Breaker",
    "Delta",
    "Happening",
    "Limits",
    "Options",
    "Recorded",
    "Retries",
    "Team",
    "World",
]
