"""Stage 1, visible: which entries a lane is shown, and for each other one the rule that keeps it out.

What an entry is to a lane is settled when it is said: whom it was addressed to, under the scope that held
then. Resets, rewinds, edits and summaries come later and are looked at each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import (
    ERASED,
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
from stenolog.domain.policy import Pins
from stenolog.domain.state import Summary
from stenolog.domain.turn_taking import is_pass
from stenolog.projections.context import Context, within
from stenolog.projections.tool_pairs import Call

from .edits import placed
from .view import INTERRUPTIONS, LaneId, pinned


class Visible(NamedTuple):
    """The entries that are shown, in the order they are shown in, the rule for each left out, and the edits
    of what has been answered."""

    shown: list[Entry]
    left_out: dict[int, str]
    anew: set[int]


def exclusion_rule(event: Event, lane: LaneId, scope: str, call: Call | None, pass_token: str = "") -> str:
    """The rule that keeps an entry from the lane for good; empty where none does.

    `scope` is the one that holds for the agent, `call` the call that a result belongs to.
    """
    match event:
        case ModeSwitch():
            return "setting"
        case Unknown(topic=topic) if topic == ERASED:
            return "erased"
        case Unknown():
            return "unknown"
        case UserMessage(parts=()):
            return "nothing-said"
        case _ if not event.in_context:
            return "not-in-context"
        case _ if scope != "open" and not _in_scope(event, lane, call):
            return "not-addressed"
        case LlmError(retry_at=datetime()) if not lane.owns(event):
            return "other-lanes-error"
        case LlmError(parts=parts) if says_something(parts):
            return ""
        case LlmError(category="rate_limited"):
            return "rate-limited"
        case LlmError() if not lane.owns(event):
            return "other-lanes-error"
        case AssistantMessage(purpose="memory" | "routing") if not lane.owns(event):
            return "private-purpose"
        case AssistantMessage() if pass_token and not lane.owns(event) and is_pass(event, pass_token):
            return "pass"
        case _:
            return ""


def apply_visibility(
    entries: Sequence[Entry], lane: LaneId, context: Context, answered: int, pins: Pins | None = None
) -> Visible:
    """Sort entries that were not passed over into what the lane is shown now and what it is not.

    `answered` is the position of the lane's last answer. What is pinned stays beside a summary of it.
    """
    left_out: dict[int, str] = {}
    failed = max((entry.position for entry in entries if _failed_silently(entry, lane)), default=0)
    for entry in entries:
        rule = _rule(entry, lane, context, answered)
        if not rule and entry.position < failed and _failed_silently(entry, lane):
            rule = "retried"
        if rule:
            left_out[entry.position] = rule
    edits = placed(entries, lane, context.edits, left_out)
    left_out |= {old: "replaced" for old in edits.replaced if old not in left_out}
    summaries = [summary for summary in context.summaries if summary.position not in left_out]
    if summaries:
        is_covered = within(span for summary in summaries for span in summary.spans)
        for entry in entries:
            covered = is_covered(entry.position) and not pinned(entry, pins)
            if covered or _is_superseded(entry, summaries):
                left_out.setdefault(entry.position, "covered")
    kept = [entry for entry in entries if entry.position not in left_out]
    places = {summary.position: summary.last for summary in summaries}
    in_order = sorted(kept, key=lambda e: _sort_key(e, lane, edits.places, places))
    return Visible(in_order, left_out, edits.anew)


def _rule(entry: Entry, lane: LaneId, context: Context, answered: int) -> str:
    """The rule that keeps an entry from the lane as things are now; empty where none does."""
    out = context.out.get(entry.position)
    if out is not None and out[0] != "replaced":
        return out[0]
    match entry.event:
        case LlmError() if entry.position < answered and _failed_silently(entry, lane):
            return "answered-since"
        case _:
            return ""


def _failed_silently(entry: Entry, lane: LaneId) -> bool:
    """Return whether an entry is an error of the lane's own model call, before a word had come."""
    match entry.event:
        case LlmError(category=category, parts=parts) as error if lane.owns(error):
            return category not in INTERRUPTIONS and not says_something(parts)
        case _:
            return False


def _is_superseded(entry: Entry, applied: Sequence[Summary]) -> bool:
    """Return whether the entry is a summary that a later one replaces."""
    match entry.event:
        case AssistantMessage(agent=agent, covers=spans) if spans:
            earlier = Summary(entry.position, agent, tuple(spans))
            return any(later.position > entry.position and later.holds(earlier) for later in applied)
        case _:
            return False


def _in_scope(event: Known, lane: LaneId, call: Call | None) -> bool:
    """Addressed: the lane's own, what names it, and what names nobody."""
    if lane.owns(event):
        return True
    if isinstance(event, ToolResult):
        return call is None or lane.owns(call)
    to: tuple[str, ...] = getattr(event, "to", ())
    return lane.address in to or (not to and not isinstance(event, LlmError))


def _sort_key(
    entry: Entry, lane: LaneId, edits: Mapping[int, Entry], summaries: Mapping[int, int]
) -> tuple[int, int, int]:
    """Return the sort key of an entry.

    An own answer stands behind the view it was built on, an edit in place of the edited entry, and a
    summary behind the last position that it covers.
    """
    position, event = entry.position, entry.event
    if position in summaries:
        return summaries[position], 0, position
    if position in edits:
        return *_sort_key(edits[position], lane, {}, summaries)[:2], position
    receipt = getattr(event, "receipt", None)
    if receipt is not None and lane.owns(event) and receipt.view < position:
        return receipt.view, 1, position
    return position, 0, position
