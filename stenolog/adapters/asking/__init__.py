"""Asking a model outside of a run: recorded requests again, within a budget, with a log of the answers."""

from __future__ import annotations

from .answers import AnswerLog
from .asking import ask, estimate

__all__ = ["AnswerLog", "ask", "estimate"]
