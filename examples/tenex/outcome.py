"""The end of the example: what was said, in which phases, who has done what; and that nothing crossed."""

from __future__ import annotations

from stenolog import AssistantMessage, Conversation, Log, UserMessage

from .completions import completions, lanes


def outcome(log: Log) -> object:
    """Return the words and the tasks, which are the same however often the program was killed."""
    sessions = [session for name in log for *_, session in lanes(log[name]) if session]
    return {name: told(log[name]) for name in log}, len(sessions), len(set(sessions))


def told(conversation: Conversation) -> object:
    """Return the words and tasks of a conversation, sorted: agents that work in parallel have no order."""
    words = [
        (event.agent if isinstance(event, AssistantMessage) else "", event.text, event.to)
        for event in (entry.event for entry in conversation.entries())
        if isinstance(event, UserMessage | AssistantMessage)
    ]
    tasks = [(task.agent, task.phase, bool(task.answered)) for task in completions(conversation.entries())]
    return sorted(words), sorted(tasks), conversation.settings().mode, conversation.settings().handoff
