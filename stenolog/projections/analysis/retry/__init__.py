"""Recorded model calls, built again under a change."""

from .cases import Case, cases, sample
from .changes import HERE, NO_CHANGE, Change, Here, Retried, built, retried
from .comparing import Tried, tried
from .decisions import NOT_COMPARED, Team
from .judging import Comparison, Interval, Judged, Pair, interval, judged, same_calls
from .questions import Estimate, ModelQuestion, ModelReply, question

__all__ = [
    "HERE",
    "NOT_COMPARED",
    "NO_CHANGE",
    "Case",
    "Change",
    "Comparison",
    "Estimate",
    "Here",
    "Interval",
    "Judged",
    "ModelQuestion",
    "ModelReply",
    "Pair",
    "Retried",
    "Team",
    "Tried",
    "built",
    "cases",
    "interval",
    "judged",
    "question",
    "retried",
    "same_calls",
    "sample",
    "tried",
]
