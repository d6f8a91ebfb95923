"""Context policies: which part of a conversation an agent is shown, and how large its requests may be.

from stenolog.context import Budget, LastN, Pins

policy = LastN(50) | Budget(tokens=16_000) | Pins(tags=("goal",))
"""

from __future__ import annotations

from .domain.placed import rule
from .domain.policy import (
    Away,
    Budget,
    Compact,
    Delta,
    FullHistory,
    History,
    Instructions,
    LastN,
    MemoryBank,
    Pins,
    Policy,
    Reminder,
    Rewrites,
    SummaryAndRecent,
    Voices,
    policy,
    register,
)

__all__ = [
    "Away",
    "Budget",
    "Compact",
    "Delta",
    "FullHistory",
    "History",
    "Instructions",
    "LastN",
    "MemoryBank",
    "Pins",
    "Policy",
    "Reminder",
    "Rewrites",
    "SummaryAndRecent",
    "Voices",
    "policy",
    "register",
    "rule",
]
