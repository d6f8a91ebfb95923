"""Recorded model calls, built again under a change."""

from .cases import Case, cases, sample
from .changes import HERE, NO_CHANGE, Change, Here, Retried, built, retried
from .comparing import Tried, tried
from .decisions import NOT_COMPARED, Team

__all__ = [
    "HERE",
    "NOT_COMPARED",
    "NO_CHANGE",
    "Case",
    "Change",
    "Here",
    "Retried",
    "Team",
    "Tried",
    "built",
    "cases",
    "retried",
    "sample",
    "tried",
]
