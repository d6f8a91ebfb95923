"""Pure functions over the entries of a conversation: what they come to, and what is in context."""

from .domain.settings import members_after, settings
from .domain.state import decision
from .projections.context import Context, context, within

__all__ = [
    "Context",
    "context",
    "decision",
    "members_after",
    "settings",
    "within",
]
