"""Import and upkeep of `conversation_messages`, in which workflows keep messages."""

from .files import import_rows
from .follower import WorkflowFollower
from .rows import conversation_messages, messages_in

__all__ = [
    "WorkflowFollower",
    "conversation_messages",
    "import_rows",
    "messages_in",
]
