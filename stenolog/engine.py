"""The engine: a team of agents that works on conversations, crashes anywhere and goes on."""

from .adapters.engine.agent import Agent
from .adapters.engine.condensing import condense
from .adapters.engine.delegate import Delegate
from .adapters.engine.happenings import Delta, Happening, Recorded
from .adapters.engine.options import Options
from .adapters.engine.recording import Recording
from .adapters.engine.regenerating import regenerate
from .adapters.engine.retries import Breaker, Retries
from .adapters.engine.team import Team
from .adapters.engine.waiting import Waiting
from .adapters.engine.world import World
from .domain.limits import Account, Accounts, Limits, exceeded, spent_of, watch
from .domain.turns import (
    Addressed,
    Next,
    Orchestrator,
    Parallel,
    Pipeline,
    RoundRobin,
    Rule,
    Turn,
    register,
    seats,
)

__all__ = [
    "Account",
    "Accounts",
    "Addressed",
    "Agent",
    "Breaker",
    "Delegate",
    "Delta",
    "Happening",
    "Limits",
    "Next",
    "Options",
    "Orchestrator",
    "Parallel",
    "Pipeline",
    "Recorded",
    "Recording",
    "Retries",
    "RoundRobin",
    "Rule",
    "Team",
    "Turn",
    "Waiting",
    "World",
    "condense",
    "exceeded",
    "regenerate",
    "register",
    "seats",
    "spent_of",
    "watch",
]
