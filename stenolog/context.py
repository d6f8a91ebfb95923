"""Context policies: which part of a conversation an agent is shown, and how large its requests may be.

from stenolog.context import Budget, LastN, Pins

policy = LastN(50) | Budget(tokens=16_000) | Pins(tags=("goal",))
"""

from __future__ import annotations

from .domain.base.model import rule
from .domain.policy import (
    Attribution,
    Budget,
    FullHistory,
    History,
    LastN,
    MemoriesAndRecent,
    MissedMessages,
    Pins,
    Policy,
    Prompt,
    Reminder,
    SinceLastTurn,
    SinceLastTurnOrRecent,
    SummaryAndRecent,
    Transforms,
    TruncateToolOutput,
    policy,
    register_history,
)
from .projections.requests.pipeline.attribution import register_transform

__all__ = [
    "Attribution",
    "Budget",
    "FullHistory",
    "History",
    "LastN",
    "MemoriesAndRecent",
    "MissedMessages",
    "Pins",
    "Policy",
    "Prompt",
    "Reminder",
    "SinceLastTurn",
    "SinceLastTurnOrRecent",
    "SummaryAndRecent",
    "Transforms",
    "TruncateToolOutput",
    "policy",
    "register_history",
    "register_transform",
    "rule",
]
