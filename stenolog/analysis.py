"""What entries come to, what is in context, and (`trace_value`) where a value has gone in a log."""

from .adapters.verify.trace import Reached, Trace, trace_value
from .domain.settings import members_after, settings
from .domain.state import decision
from .projections.context import Context, context, within

__all__ = [
    "Context",
    "Reached",
    "Trace",
    "context",
    "decision",
    "members_after",
    "settings",
    "trace_value",
    "within",
]
