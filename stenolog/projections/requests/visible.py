"""Stage 1, visible: which entries a lane is shown, and for each other one the rule that keeps it out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.errors import LaterRelease
from stenolog.domain.events import (
    AssistantMessage,
    Event,
    Known,
    LlmError,
    ModeSwitch,
    ToolResult,
    Unknown,
    UserMessage,
)
from stenolog.domain.parts import says_something
from stenolog.domain.state import Blocked, address, blocked_reason
from stenolog.projections.context import Context, Summary

INTERRUPTIONS = ("cancelled", "process_exited")
"""Errors that stop a lane: they stay in context, for the seals of the calls they cut off rest on them."""


class Lane(NamedTuple):
    """Whose view it is."""

    agent: str
    task: str = ""

    @property
    def address(self) -> str:
        """`agent`, or `agent/task`."""
        return address(self.agent, self.task)

    def owns(self, event: Event) -> bool:
        """Whether the lane itself said it."""
        return (
            isinstance(event, AssistantMessage | LlmError)
            and event.agent == self.agent
            and event.task == self.task
        )


class Visible(NamedTuple):
    """The entries that are shown, in the order they are shown in, and the rule for each left out."""

    shown: list[Entry]
    left_out: dict[int, str]
    owners: dict[int, Event]


def visible(log: Sequence[Entry], lane: Lane, context: Context) -> Visible:
    """Sort the log into what the lane is shown and what it is not.

    Raises `LaterRelease` where the log holds what this release may not pass over.
    """
    events = {entry.position: entry.event for entry in log}
    owners = {
        position: events[key.position] for position, key in context.pairing.calls.items() if key is not None
    }
    answered = max((e.position for e in log if lane.owns(e.event) and _is_answer(e.event)), default=0)
    left_out: dict[int, str] = {}
    for entry in log:
        rule = _rule(entry, lane, context, owners.get(entry.position), answered)
        if rule:
            left_out[entry.position] = rule
    edited = (old for old, new in context.replaced_by.items() if new not in left_out)
    left_out.update((old, "replaced") for old in edited if old not in left_out)
    summaries = _applied(log, lane, context, left_out)
    kept = [entry for entry in log if entry.position not in left_out]
    places = {summary.position: summary.last for summary in summaries}
    return Visible(sorted(kept, key=lambda e: _place(e, lane, context, places)), left_out, owners)


def _applied(log: Sequence[Entry], lane: Lane, context: Context, left_out: dict[int, str]) -> list[Summary]:
    """The summaries that the lane is shown; what they cover is left out, and what it may not know of."""
    applied = [summary for summary in context.summaries if summary.position not in left_out]
    for summary in applied:
        if summary.agent != lane.agent and _tells_too_much(summary, left_out):
            left_out[summary.position] = "not-addressed"
    applied = [summary for summary in applied if summary.position not in left_out]
    covered = bytearray(log[-1].position + 2 if log else 0)
    for span in (span for summary in applied for span in summary.spans):
        covered[span.first : span.last + 1] = b"\x01" * (span.last + 1 - span.first)
    for entry in log:
        if covered[entry.position] or _is_superseded(entry, applied):
            left_out.setdefault(entry.position, "covered")
    return applied


def _tells_too_much(summary: Summary, left_out: dict[int, str]) -> bool:
    return any(rule == "not-addressed" and summary.covers(position) for position, rule in left_out.items())


def _is_superseded(entry: Entry, applied: Sequence[Summary]) -> bool:
    """Whether it is a summary that a later one makes needless."""
    match entry.event:
        case AssistantMessage(agent=agent, covers=spans) if spans:
            earlier = Summary(entry.position, agent, tuple(spans))
            return any(later.position > entry.position and later.holds(earlier) for later in applied)
        case _:
            return False


def _rule(entry: Entry, lane: Lane, context: Context, owner: Event | None, answered: int) -> str:
    """The rule that keeps an entry from the lane; empty where none does."""
    event = entry.event
    match event:
        case ModeSwitch():
            return "setting"
        case Unknown(ignorable=False):
            raise LaterRelease(blocked_reason(Blocked(entry.position, event.topic, event.needs)))
        case Unknown():
            return "unknown"
        case UserMessage(parts=()):
            return "nothing-said"
        case _:
            return _message_rule(entry, event, lane, context, owner, answered)


def _message_rule(
    entry: Entry, event: Known, lane: Lane, context: Context, owner: Event | None, answered: int
) -> str:
    if entry.position in context.out and context.out[entry.position][0] != "replaced":
        return context.out[entry.position][0]
    if not event.in_context:
        return "not-in-context"
    if not _in_scope(event, lane, context, owner):
        return "not-addressed"
    match event:
        case LlmError(parts=parts) if says_something(parts):
            return ""
        case LlmError(category="rate_limited"):
            return "rate-limited"
        case LlmError() if not lane.owns(event):
            return "other-lanes-error"
        case LlmError(category=category) if entry.position < answered:
            return "" if category in INTERRUPTIONS else "answered-since"
        case AssistantMessage(purpose="memory" | "routing") if not lane.owns(event):
            return "private-purpose"
        case _:
            return ""


def _in_scope(event: Event, lane: Lane, context: Context, owner: Event | None) -> bool:
    """Open: everything. Addressed: the lane's own, what names it, and what names nobody."""
    if context.settings.scope_of(lane.agent) == "open" or lane.owns(event):
        return True
    if isinstance(event, ToolResult):
        return owner is None or lane.owns(owner)
    to: tuple[str, ...] = getattr(event, "to", ())
    return lane.address in to or (not to and not isinstance(event, LlmError))


def _is_answer(event: Event) -> bool:
    return isinstance(event, AssistantMessage) and event.purpose == "answer"


def _place(entry: Entry, lane: Lane, context: Context, summaries: dict[int, int]) -> tuple[int, int, int]:
    """Where an entry stands: an own answer behind the view it was built on, an edit where the edited was,
    a summary behind the last position it covers.
    """
    position, event = entry.position, entry.event
    if position in summaries:
        return summaries[position], 0, position
    if position in context.edits:
        return context.edits[position], 0, position
    receipt = getattr(event, "receipt", None)
    if receipt is not None and lane.owns(event) and receipt.view < position:
        return receipt.view, 1, position
    return position, 0, position
