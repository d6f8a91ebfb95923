"""Upper bounds of what an entry adds to a window, so that the window is seldom measured whole."""

from __future__ import annotations

from collections.abc import Sequence

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, ToolResult
from stenolog.domain.parts import ToolCall
from stenolog.domain.policy import Policy
from stenolog.projections.messages.identifiers import called
from stenolog.projections.messages.message import Message
from stenolog.projections.messages.sizes import Size, larger, total
from stenolog.projections.requests.pipeline.attribution import in_prose_result
from stenolog.projections.requests.pipeline.budget import Cap
from stenolog.projections.requests.pipeline.edits import edit_note, is_edit
from stenolog.projections.requests.pipeline.lane import pinned
from stenolog.projections.requests.pipeline.prompt import stubs, tools_called
from stenolog.projections.requests.pipeline.view import View
from stenolog.projections.views.tool_pairs import CallKey

from .frozen import FrozenAndTail

NO_SIZE = Size()
NO_CALL = CallKey(-1, 0)


def bound(view: View, entry: Entry, messages: Sequence[Message], size: Size, answered: int) -> Size:
    """Return the most that an entry adds to a window; `size` is that of its messages.

    `answered` is the position of the last answer in the window, if nothing has come between it and its
    results.
    """
    if isinstance(entry.event, ToolResult) and messages and messages[0].role == "tool":
        sized = view.policy.budget is not None
        # In the last answer it stays in place: what takes its call away has all measured anew.
        if (messages[0].call or NO_CALL).position == answered:
            # A placeholder was counted for it.
            size = size if sized or view.transforms else NO_SIZE
        elif sized:
            # It may be, or become, quoted text: escaped, with the call's id and the log's tool name.
            size = larger(size, view.measure.of(in_prose_result(messages[0], view.style)))
    if messages and is_edit(entry.event):
        # It may stand behind a note.
        size = size.plus(view.measure.of(edit_note(messages[0])))
    # Counted in advance: whether a call gets a placeholder, and its tool a stub, is known only later.
    for message in messages if isinstance(entry.event, AssistantMessage) else ():
        names = [called(part) for part in message.parts if isinstance(part, ToolCall)]
        size = total([size, *map(view.measure.stub, names), *[view.measure.placeholder] * len(names)])
    if view.policy.reminder is not None and pinned(entry, view.policy.pins):
        # It may be said again, in a reminder.
        size = size.plus(size)
    return size


def counts_against(cap: Cap, entry: Entry, policy: Policy) -> bool:
    """Return whether an entry counts against a cap; some stay beside the last messages."""
    if not cap.recent:
        return True
    purpose = getattr(entry.event, "purpose", "answer")
    return purpose not in (*policy.history.keeps, "summary") and not pinned(entry, policy.pins)


def size_as_shown(view: View, told: FrozenAndTail) -> Size:
    """Return the size of a window without pins, measuring only what is new since the last time."""
    said = [message for unit in told.units for message in unit]
    # Without pins, a tool's stub counts once: with the last unit that calls it.
    names = {**told.frozen.tools, **tools_called(said)} if view.version > 5 else ()
    sizes = [told.frozen.size(view.measure.of), *(each.size or view.measure.of(each) for each in said)]
    return total([*sizes, *map(view.measure.stub, stubs(view, names))])
