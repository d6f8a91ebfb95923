"""The engine: a team of agents that works on conversations, crashes anywhere and goes on."""

from .adapters.engine.agent import Agent
from .adapters.engine.approvals import PendingApproval
from .adapters.engine.delegate import AgentTool
from .adapters.engine.forks import compact, regenerate
from .adapters.engine.options import EntryAppended, Options, RunEvent, Runtime, StreamDelta
from .adapters.engine.replay import Replay
from .adapters.engine.retries import CircuitBreaker, RetryPolicy
from .adapters.engine.start import OnInput
from .adapters.engine.team import Team
from .domain.limits import LaneUsage, Limits, UsageByLane, delegated_usage, limit_reached, track_usage
from .domain.model import rule
from .domain.turns import (
    ByAddress,
    NextTurn,
    Orchestrator,
    Parallel,
    RoundRobin,
    Sequential,
    TurnRule,
    TurnView,
    present,
    register_turn_rule,
)

__all__ = [
    "Agent",
    "AgentTool",
    "ByAddress",
    "CircuitBreaker",
    "EntryAppended",
    "LaneUsage",
    "Limits",
    "NextTurn",
    "OnInput",
    "Options",
    "Orchestrator",
    "Parallel",
    "PendingApproval",
    "Replay",
    "RetryPolicy",
    "RoundRobin",
    "RunEvent",
    "Runtime",
    "Sequential",
    "StreamDelta",
    "Team",
    "TurnRule",
    "TurnView",
    "UsageByLane",
    "compact",
    "delegated_usage",
    "limit_reached",
    "present",
    "regenerate",
    "register_turn_rule",
    "rule",
    "track_usage",
]
