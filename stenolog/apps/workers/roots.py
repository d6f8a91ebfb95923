"""The conversation whose run includes another: a worker agent's belongs to its caller's."""

from __future__ import annotations

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.approvals import workers


def root_of(conversation: Conversation) -> Conversation:
    """Return the conversation whose run continues after words in this one."""
    parent = conversation.settings().parent
    if parent is None or parent.conversation not in conversation.log:
        return conversation
    above = conversation.log[parent.conversation]
    # A fork that a person made, and a worker that has ended, are run by themselves.
    return root_of(above) if conversation.name in workers(above) else conversation
