"""Stage 1, visible: which entries a lane is shown, and the rule that hides each other one.

Address and scope decide on arrival (`exclusion_rule`). Resets, rewinds and answers come later and are checked
each time (`visible`).
"""

from __future__ import annotations

from collections.abc import Sequence

from stenolog.domain import events
from stenolog.domain.entry import Entry
from stenolog.domain.erasure import LOST, WORDLESS
from stenolog.domain.lanes.turn_taking import is_pass
from stenolog.domain.parts import says_something
from stenolog.domain.verdict import is_refused
from stenolog.projections.views.context import Context
from stenolog.projections.views.tool_pairs import Call

from .lane import INTERRUPTIONS, LaneId


def exclusion_rule(
    event: events.Event,
    lane: LaneId,
    scope: str,
    call: Call | None,
    pass_token: str = "",
    *,
    own: bool = True,
) -> str:
    """Return the rule that hides an entry from the lane permanently; "" if none.

    `scope` is the agent's, `call` the call of a result. `own`: the lane is shown its own passes.
    """
    match event:
        case events.ModeSwitch():
            return "setting"
        case events.Unknown(topic=topic) if topic in WORDLESS:
            return topic
        case events.Unknown(topic=topic) if topic == LOST:
            return "lost"
        case events.Unknown():
            return "unknown"
        case events.UserMessage(parts=()):
            return "nothing-said"
        case _ if not event.in_context:
            return "not-in-context"
        case _ if scope != "open" and not _in_scope(event, lane, call):
            return "not-addressed"
        case events.LlmError(retry_at=retry) if not lane.owns(event) and (retry or is_refused(event)):
            return "other-lanes-error"
        # Before the rules for silent errors: what had arrived is shown.
        case events.LlmError(parts=parts) if says_something(parts):
            return ""
        case events.LlmError(category="rate_limited"):
            return "rate-limited"
        case events.LlmError() if not lane.owns(event):
            return "other-lanes-error"
        case events.AssistantMessage(purpose="memory" | "routing") if not lane.wrote(event):
            return "private-purpose"
        case events.AssistantMessage() if (
            pass_token and is_pass(event, pass_token) and not (own and lane.wrote(event))
        ):
            return "pass"
        # A summary is the affair of those that it was made for; so is what it tells of.
        case events.AssistantMessage(purpose="summary", to=to) if (
            not lane.wrote(event) and lane.address not in to and lane.agent not in to
        ):
            return "private-purpose"
        case _:
            return ""


def visible(entries: Sequence[Entry], lane: LaneId, context: Context, answered: int) -> dict[int, str]:
    """Return the rule for each entry that is out of context now.

    `answered` is the position of the lane's last answer.
    """
    # Of several silent failures in a row the last one says enough.
    failed = max((entry.position for entry in entries if _failed_silently(entry, lane)), default=0)
    left_out: dict[int, str] = {}
    for entry in entries:
        rule = _rule(entry, lane, context, answered)
        if not rule and entry.position < failed and _failed_silently(entry, lane):
            rule = "retried"
        if rule:
            left_out[entry.position] = rule
    return left_out


def _rule(entry: Entry, lane: LaneId, context: Context, answered: int) -> str:
    out = context.out.get(entry.position)
    if out is not None and out[0] != "replaced":
        return out[0]
    match entry.event:
        case events.LlmError() if entry.position < answered and _failed_silently(entry, lane):
            return "answered-since"
        case _:
            return ""


def _failed_silently(entry: Entry, lane: LaneId) -> bool:
    match entry.event:
        case events.LlmError(category=category, parts=parts) as error if lane.owns(error):
            return category not in INTERRUPTIONS and not says_something(parts)
        case _:
            return False


def _in_scope(event: events.Known, lane: LaneId, call: Call | None) -> bool:
    """Return whether an entry is in scope: the lane's own, to it by name, or to no name."""
    if lane.wrote(event):
        return True
    if isinstance(event, events.ToolResult) and call is not None:
        return lane.wrote(call)
    to: tuple[str, ...] = getattr(event, "to", ())
    return lane.address in to or (not to and not isinstance(event, events.LlmError))
