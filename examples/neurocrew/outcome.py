"""The end of the room: who has said what, whose turn it would be, what was noted, where the agents begin."""

from __future__ import annotations

from stenolog import AssistantMessage, Log, UserMessage


def outcome(log: Log) -> object:
    """Return the words and the turns, which are the same however often the program was killed.

    A summary may be made a message later after a kill, so it counts whose it is, and not what it covers.
    """
    conversation = log["crew"]
    events = [entry.event for entry in conversation.entries()]
    said = [
        (event.agent if isinstance(event, AssistantMessage) else "", event.text)
        for event in events
        if isinstance(event, UserMessage)
        or (isinstance(event, AssistantMessage) and event.purpose == "answer")
    ]
    facts = [e.text for e in events if isinstance(e, AssistantMessage) and e.purpose == "memory"]
    summed = {e.agent for e in events if isinstance(e, AssistantMessage) and e.purpose == "summary"}
    state = conversation.state()
    return said, facts, summed, state.turn_state.end_reason, conversation.settings().context_from is not None
