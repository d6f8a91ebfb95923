"""The end of the room: who has said what, whose turn it would be, and where the agents begin."""

from __future__ import annotations

from stenolog import AssistantMessage, Log, UserMessage


def outcome(log: Log) -> object:
    """Return the words and the turns, which are the same however often the program was killed."""
    conversation = log["crew"]
    said = [
        (event.agent if isinstance(event, AssistantMessage) else "", event.text)
        for event in (entry.event for entry in conversation.entries())
        if isinstance(event, UserMessage | AssistantMessage)
    ]
    return said, conversation.state().turn_state.end_reason, conversation.settings().context_from is not None
