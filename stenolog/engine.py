"""The engine: a team of agents that works on conversations, crashes anywhere and goes on."""

from .adapters.asking import Asking, Judge, Panel, judge_from
from .adapters.engine.agent import Agent
from .adapters.engine.approvals import Approver, PendingApproval
from .adapters.engine.checks import (
    AskPerson,
    Refuse,
    Replace,
    after_answer,
    after_result,
    before_call,
    before_request,
)
from .adapters.engine.delegate import AgentTool
from .adapters.engine.handoff import Handoff
from .adapters.engine.model_calls.retries import CircuitBreaker, RetryPolicy
from .adapters.engine.options import EntryAppended, Options, RunEvent, Runtime, StreamDelta
from .adapters.engine.output import Output
from .adapters.engine.replay import Replay
from .adapters.engine.situation import Situation
from .adapters.engine.team.result import RunResult
from .adapters.engine.team.start import OnInput
from .adapters.engine.team.team import Team
from .adapters.engine.team_file import load as load_team
from .adapters.engine.upkeep.auto_context import AutoMemory, AutoSummary
from .adapters.engine.upkeep.auto_recall import AutoRecall
from .adapters.engine.upkeep.auto_score import AutoScore
from .adapters.engine.upkeep.compaction import compact
from .adapters.engine.upkeep.forks import regenerate
from .domain.base.model import rule
from .domain.lanes.decide import decide
from .domain.lanes.limits import (
    LaneUsage,
    Limits,
    Tokens,
    UsageByLane,
    delegated_usage,
    limit_reached,
    track_usage,
)
from .domain.lanes.state import Decision, LaneState, State, address, decision
from .domain.lanes.step import INITIAL, StepResult, Transition, evolve, step
from .domain.lanes.turns import (
    ByAddress,
    ByHandoff,
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
    "INITIAL",
    "Agent",
    "AgentTool",
    "Approver",
    "AskPerson",
    "Asking",
    "AutoMemory",
    "AutoRecall",
    "AutoScore",
    "AutoSummary",
    "ByAddress",
    "ByHandoff",
    "CircuitBreaker",
    "Decision",
    "EntryAppended",
    "Handoff",
    "Judge",
    "LaneState",
    "LaneUsage",
    "Limits",
    "NextTurn",
    "OnInput",
    "Options",
    "Orchestrator",
    "Output",
    "Panel",
    "Parallel",
    "PendingApproval",
    "Refuse",
    "Replace",
    "Replay",
    "RetryPolicy",
    "RoundRobin",
    "RunEvent",
    "RunResult",
    "Runtime",
    "Sequential",
    "Situation",
    "State",
    "StepResult",
    "StreamDelta",
    "Team",
    "Tokens",
    "Transition",
    "TurnRule",
    "TurnView",
    "UsageByLane",
    "address",
    "after_answer",
    "after_result",
    "before_call",
    "before_request",
    "compact",
    "decide",
    "decision",
    "delegated_usage",
    "evolve",
    "judge_from",
    "limit_reached",
    "load_team",
    "present",
    "regenerate",
    "register_turn_rule",
    "rule",
    "step",
    "track_usage",
]
