"""Marks of a hand-off: on the result of its call, and on what is appended with it.

The result ends its lane's run and says who is next; the message to the other says what to do.
"""

from __future__ import annotations

from typing import Any

from stenolog.domain.events import ModeSwitch, ToolResult, UserMessage
from stenolog.domain.verdict import OWN, own_meta

HANDOFF = "handoff"


def result_mark(agent: str) -> dict[str, Any]:
    """Return the metadata of a result that hands on to an agent."""
    return {OWN: {HANDOFF: {"to": agent}}}


def message_mark(nth: int) -> dict[str, Any]:
    """Return the metadata of what is appended with a hand-off's result; `nth` is the call's index."""
    return {OWN: {HANDOFF: {"call": nth}}}


def taking_over(result: ToolResult) -> str:
    """Return the agent that a result hands on to; "" if none."""
    match own_meta(result).get(HANDOFF) if not result.is_error else None:
        case {"to": str(agent)}:
            return agent
        case _:
            return ""


def handing_call(event: UserMessage | ModeSwitch) -> int | None:
    """Return the index of the call that an event was appended for, to hand on; None for any other."""
    match own_meta(event).get(HANDOFF):
        case {"call": int(nth)} if isinstance(event, ModeSwitch) or (
            event.author_kind == "agent" and event.to
        ):
            return nth
        case _:
            return None


def is_of_handoff(event: UserMessage | ModeSwitch) -> bool:
    """Return whether an event was appended with the result of a hand-off."""
    return handing_call(event) is not None
