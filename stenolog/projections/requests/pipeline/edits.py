"""Stage 2, edited: edits and summaries replace their originals; answers follow the view they were built on.

Earlier words that the lane has answered stay; their edit is shown where it arrived, after a note, as
something new to answer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from itertools import takewhile
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, Event, LlmError, UserMessage
from stenolog.domain.parts import TextPart, says_something
from stenolog.domain.policy import Pins
from stenolog.projections.messages.message import Message
from stenolog.projections.messages.quoting import note
from stenolog.projections.views.context import Context, within
from stenolog.projections.views.lines import was_retried

from .lane import LaneId, pinned

ANEW = note("what follows takes the place of an earlier message")
"""Note before an edit of a message that has been answered."""


class Edits(NamedTuple):
    """The edits as a lane is shown them.

    `places` has, by the position of an edit, the entry whose place it takes. `replaced` are the wordings that
    are not shown. `anew` are the edits at their own positions: the lane has answered the earlier wording.
    """

    places: dict[int, Entry]
    replaced: set[int]
    anew: set[int]


class Edited(NamedTuple):
    """The shown entries in order; rules of those left out; edits of answered messages."""

    shown: list[Entry]
    left_out: dict[int, str]
    anew: set[int]


def edited(
    entries: Sequence[Entry], out: Mapping[int, str], lane: LaneId, context: Context, pins: Pins | None
) -> Edited:
    """Return the entries with edits and summaries in the place of what they replace.

    `out` has the rule for each entry out of context. Pins stay beside a summary of them.
    """
    left_out = dict(out)
    edits = placed(entries, lane, context.edits, left_out)
    left_out |= {old: "replaced" for old in edits.replaced if old not in left_out}
    summaries = [summary for summary in context.summaries if summary.position not in left_out]
    if summaries:
        is_covered = within(span for summary in summaries for span in summary.spans)
        superseded = {
            record.position
            for record in context.made
            if any(later.position > record.position and later.holds(record) for later in summaries)
        }
        for entry in entries:
            covered = is_covered(entry.position) and not pinned(entry, pins)
            if covered or entry.position in superseded:
                left_out.setdefault(entry.position, "covered")
    kept = [entry for entry in entries if entry.position not in left_out]
    places = {summary.position: summary.last for summary in summaries}
    in_order = sorted(kept, key=lambda e: _sort_key(e, lane, edits.places, places))
    return Edited(in_order, left_out, edits.anew)


def placed(entries: Sequence[Entry], lane: LaneId, edits: Mapping[int, int], out: Collection[int]) -> Edits:
    """Return each edit's place for the lane.

    `edits` has their first wordings, `out` the positions out of context.
    """
    found = Edits({}, set(), set())
    if not edits:
        return found
    by_position = {entry.position: entry for entry in entries}
    views = sorted(_view(e) for e in entries if e.position not in out and _is_turn(e, lane))
    stands: dict[
        int, tuple[int, int]
    ] = {}  # by the first wording: where the last one stands, and which it is
    for edit, first in edits.items():
        place, wording = stands.get(first, (first, first))
        # Whether any answer was built on a view that has the place, but not the edit.
        answered = bisect_left(views, place) < bisect_left(views, edit)
        # The earlier wording was never for the lane, or has left the window.
        if place not in by_position:
            place = edit
        elif _stays(by_position[wording], by_position[edit], lane, answered=answered):
            # The lane has answered the earlier words: with them, what was sent stays the beginning of what is
            # sent.
            found.anew.add(edit)
            place = edit
        else:
            found.replaced.add(wording)
            found.places[edit] = by_position[place]
            found.anew.update({edit} if place in found.anew else ())
        stands[first] = place, edit
    return found


def _stays(wording: Entry, edit: Entry, lane: LaneId, *, answered: bool) -> bool:
    match edit.event:
        # It asks no agent, so nothing was answered that would have to stay.
        case AssistantMessage(purpose="summary" | "memory" | "routing"):
            return False
        case AssistantMessage() as answer if lane.owns(answer):
            # A new answer of the lane replaces an answer, but not a person's message.
            return isinstance(wording.event, UserMessage)
        case _:
            return answered


def with_notes(units: Iterable[tuple[Message, ...]], anew: Set[int]) -> list[tuple[Message, ...]]:
    """Return the units, with a note before each edit in `anew`."""
    if not anew:
        return list(units)
    return [(edit_note(unit[0]), *unit) if unit and _is_anew(unit[0], anew) else unit for unit in units]


def parts_wordings(entry: Entry, before: Iterable[Entry], lane: LaneId) -> bool:
    """Return whether an entry is the lane's answer to a view that edits have followed.

    Replaced wordings may be shown again. `before` has the earlier entries, latest first.
    """
    if not lane.owns(entry.event):
        return False
    view = _view(entry)
    since = takewhile(lambda other: other.position > view, before)
    return any(is_edit(other.event) for other in since)


def is_edit(event: Event) -> bool:
    """Return whether an event is another wording of an earlier one."""
    return isinstance(event, UserMessage | AssistantMessage) and event.replaces is not None


def _is_turn(entry: Entry, lane: LaneId) -> bool:
    """Return whether the entry is a response of the lane, complete or cut off."""
    match entry.event:
        case AssistantMessage(purpose="answer", replaces=None) as answer:
            return lane.owns(answer)
        case LlmError(parts=parts) as error:
            return lane.owns(error) and says_something(parts) and not was_retried(error)
        case _:
            return False


def _view(entry: Entry) -> int:
    receipt = getattr(entry.event, "receipt", None)
    return entry.position - 1 if receipt is None else min(receipt.view, entry.position - 1)


def _is_anew(message: Message, anew: Set[int]) -> bool:
    return bool(anew) and message.role != "assistant" and not anew.isdisjoint(message.positions)


def edit_note(message: Message) -> Message:
    """Return the note before such an edit."""
    return Message("user", (TextPart(text=ANEW),), message.positions[:1], "edit-note", "added")


def _sort_key(
    entry: Entry, lane: LaneId, edits: Mapping[int, Entry], summaries: Mapping[int, int]
) -> tuple[int, int, int]:
    position, event = entry.position, entry.event
    if position in summaries:
        return summaries[position], 0, position
    if position in edits:
        return *_sort_key(edits[position], lane, {}, summaries)[:2], position
    receipt = getattr(event, "receipt", None)
    if receipt is not None and lane.owns(event) and receipt.view < position:
        # What came while the answer was being written stands behind it, as it was not answered by it.
        return receipt.view, 1, position
    return position, 0, position
