"""Recorded model calls, built again under a change."""

from .cases import Case, cases, sample
from .changes import HERE, NO_CHANGE, Change, Here, Retried, built, retried

__all__ = ["HERE", "NO_CHANGE", "Case", "Change", "Here", "Retried", "built", "cases", "retried", "sample"]
