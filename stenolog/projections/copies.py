"""Copies of messages: entries that repeat others, and count neither as calls nor as turns."""

from __future__ import annotations

from stenolog.domain.events import AssistantMessage, Event


def counts_elsewhere(event: Event) -> bool:
    """Return whether the event counts where it was made: in another conversation, or in an earlier entry.

    A framework that writes a message of its state again names the earlier entry: `copy_of`. An answer that
    a client has in its history, and that no tap has seen being made, is `restated`.
    """
    ours = getattr(event, "meta", {}).get("stenolog")
    if not isinstance(ours, dict):
        return False
    is_copy = "copy_of" in ours or "restated" in ours
    return is_copy or (isinstance(event, AssistantMessage) and "child" in ours)
