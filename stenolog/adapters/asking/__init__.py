"""Asking a model outside of a run: recorded requests again, within a budget, with a log of the answers."""

from __future__ import annotations

from .asking import Asking, estimate
from .judges import BY_CALLS, Judge, judge_from
from .panel import Panel, Verdicts

__all__ = ["BY_CALLS", "Asking", "Judge", "Panel", "Verdicts", "estimate", "judge_from"]
