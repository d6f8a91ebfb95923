"""The end of the story, from the log alone: the same, however often the program was killed."""

from __future__ import annotations

from stenolog import AssistantMessage, LlmError, Log, ToolResult

from .script import FOUND


def outcome(log: Log) -> object:
    """Return what is compared between runs: the words, who did what, and where the log ends.

    An answer that was cut off is joined with its continuation.
    """
    conversation = log["parser"]
    events = [entry.event for entry in conversation.entries()]
    answers = [event for event in events if isinstance(event, AssistantMessage)]
    spoken = [event for event in events if isinstance(event, AssistantMessage | LlmError)]
    # a call that was made again by itself told everything anew
    pieces = [event.text for event in spoken if not getattr(event, "retry_at", None)]
    results = [event for event in events if isinstance(event, ToolResult)]
    return {
        "found": "".join(piece for piece in pieces if piece in FOUND),
        "said": [event.text for event in answers if event.text and event.text not in FOUND],
        "done": [(event.name, event.run, event.node, event.is_error) for event in results],
        "outputs": sorted(map(len, conversation.outputs.values())),
        "mode": conversation.settings().mode,
    }
