"""The context of a lane over time: the tokens of each request as rebuilt, as billed, and read from cache."""

from __future__ import annotations

from .curve import ContextCurve, context_curve
from .samples import Mark, Sample

__all__ = ["ContextCurve", "Mark", "Sample", "context_curve"]
