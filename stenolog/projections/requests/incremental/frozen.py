"""Frozen prefix of a request: the messages that no later entry can change.

Only the tail is rebuilt. An entry that changes more makes the window rebuild everything.
"""

# A request differs from the one before it by a few entries at its end.
# An answer to come, the results of open calls, an edit, a summary or a reset may change the tail.

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import UNCHANGED, AssistantMessage, Event, LlmError, ModeSwitch, ToolResult
from stenolog.domain.parts import says_something
from stenolog.domain.policy import Pins
from stenolog.projections.messages.message import Message
from stenolog.projections.messages.sizes import Size, total
from stenolog.projections.requests.pipeline.edits import is_edit, parts_wordings
from stenolog.projections.requests.pipeline.lane import LaneId, pinned
from stenolog.projections.requests.pipeline.prompt import tools_called
from stenolog.projections.requests.pipeline.tool_groups import ToolGroup
from stenolog.projections.views.tool_pairs import CallKey, Pair

Unit = tuple[Message, ...]
ENDLESS = 2**63 - 1
# A lane that only listens has no answer behind which its window could be frozen.
LONG, SLACK = 128, 64
"""After `LONG` units without an answer of the lane, all but the last `SLACK` units are frozen."""


class WindowRow(NamedTuple):
    """An entry in the window: its messages, and their maximum size.

    `plain`: it is shown where it arrived, and takes nothing out of context.
    """

    entry: Entry
    messages: tuple[Message, ...]
    size: Size
    plain: bool = False


class TailContents(NamedTuple):
    """The contents of some rows of a lane's window.

    `made` are the groups and messages of the `rows`, and `units` their units, one for one. `left_out` has the
    rule for each position that is not shown, `entries` the shown entries in order, `edits` the edited
    entries.
    """

    rows: list[WindowRow]
    made: list[ToolGroup | Message]
    units: list[Unit]
    left_out: dict[int, str]
    entries: list[Entry]
    edits: dict[int, int]


class FrozenPrefix:
    """Units that stay, and all that the following units depend on.

    `units` grows and never changes; it holds the first `rows` of the window, up to position `last`.
    `left_out` has the rule for each position that is not shown; `called` are the calls made, `tools` their
    names, `answer` is the last answer. `end` is the last message, `pinned` has the shown pinned entries.
    """

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self.rows = 0
        self.last = 0
        self.left_out: dict[int, str] = {}
        self.called: set[CallKey] = set()
        self._tools: dict[str, None] = {}
        self._searched = self._measured = 0
        self._size = Size()
        self.answer: ToolGroup | None = None
        self.end: Message | None = None
        self.pinned: list[Entry] = []

    def add(
        self, units: Iterable[Unit], rows: Sequence[WindowRow], left_out: dict[int, str], last: int
    ) -> None:
        """Add units of these rows, up to position `last`."""
        for unit in units:
            if unit:
                self.units.append(unit)
                self.end = unit[-1]
                for message in unit:
                    self.called.update(message.calls)
        self.rows += len(rows)
        self.last = max(self.last, last, rows[-1].entry.position if rows else 0)
        for row in rows:
            if row.entry.position in left_out:
                self.left_out[row.entry.position] = left_out[row.entry.position]

    @property
    def tools(self) -> dict[str, None]:
        """The names of the called tools, in order. Only a request asks for them."""
        self._tools.update(tools_called(chain.from_iterable(self.units[self._searched :])))
        self._searched = len(self.units)
        return self._tools

    def size(self, of: Callable[[Message], Size]) -> Size:
        """Return the size of all units; `of` measures a message. Only a budget asks for it."""
        fresh = chain.from_iterable(self.units[self._measured :])
        self._size = total([self._size, *(message.size or of(message) for message in fresh)])
        self._measured = len(self.units)
        return self._size

    def keep_pinned(self, entries: Sequence[Entry], pins: Pins) -> list[Entry]:
        """Keep those that are frozen and pinned; return those that are not frozen."""
        self.pinned += (each for each in entries if each.position <= self.last and pinned(each, pins))
        return [each for each in entries if each.position > self.last]

    def without(self, number: int, rows: int) -> FrozenPrefix | None:
        """Return the prefix without its first units, of so many rows; None if a later one rests on these."""
        gone, rest = self.units[:number], self.units[number:]
        called = {call for unit in gone for message in unit for call in message.calls}
        # A late result is an orphan once its call is gone.
        late = called and "late-result" in [unit[0].rule for unit in rest]
        first = self.answer.said.calls if self.answer else ()
        if not rest or self.left_out or self.pinned or late or not called.isdisjoint(first):
            return None
        made = FrozenPrefix()
        made.units, made.rows, made.called = rest, self.rows - rows, self.called - called
        made.last, made.answer, made.end = self.last, self.answer, self.end
        return made


class FrozenAndTail(NamedTuple):
    """The window as a frozen prefix (`number` units, from `rows` rows) and the `units` of its tail.

    `left_out` has the rule for each later position that is not shown, `entries` the shown entries.
    """

    frozen: FrozenPrefix
    number: int
    rows: int
    units: list[Unit]
    left_out: dict[int, str]
    entries: list[Entry]


def changes_context(event: Event) -> bool:
    """Return whether an entry may take others out of context, or put them back."""
    match event:
        case ModeSwitch(hides=hides, context_from=context_from):
            return hides is not UNCHANGED or context_from is not UNCHANGED
        case AssistantMessage(covers=(_, *_)):
            return True
        case _:
            return is_edit(event)


def is_plain(entry: Entry, lane: LaneId) -> bool:
    """Return whether the lane is shown the entry at its position, unless another hides it."""
    event = entry.event
    if isinstance(event, ToolResult):
        return True
    if isinstance(event, LlmError) or changes_context(event):
        return False
    return not stands_earlier(entry, lane)


def stands_earlier(entry: Entry, lane: LaneId) -> bool:
    """Return whether an answer of the lane is shown before entries that it did not see."""
    receipt = getattr(entry.event, "receipt", None)
    # An own answer stands behind the position that it was built on, which may be earlier than its position.
    return receipt is not None and receipt.view < entry.position - 1 and lane.owns(entry.event)


def moves_others(rows: Sequence[WindowRow], entry: Entry, lane: LaneId) -> bool:
    """Return whether an entry after these may bring others back, or is shown before them."""
    before_it = (row.entry for row in reversed(rows))
    # A result behind an answer that stands earlier is a late one: a message more than was measured.
    return (
        changes_context(entry.event) or parts_wordings(entry, before_it, lane) or stands_earlier(entry, lane)
    )


def thaws(frozen: FrozenPrefix, entry: Entry, pair: Pair | None, *, shown: bool) -> bool:
    """Return whether an entry changes the frozen prefix.

    It may change the context, its place may be in the prefix, or it is the hidden result of a call there.
    """
    event = entry.event
    # What is not shown to the lane, such as another's summary, changes nothing else for it.
    if changes_context(event) and (shown or isinstance(event, ModeSwitch)):
        return True
    if isinstance(event, ToolResult):
        return not shown and bool(pair and pair.call and pair.call.key.position <= frozen.last)
    receipt = getattr(event, "receipt", None)
    return receipt is not None and receipt.view < frozen.last


def freeze(frozen: FrozenPrefix, tail: TailContents, answered: int, upto: int = ENDLESS) -> int:
    """Freeze as many units as possible up to a position; return their number.

    `answered` is the lane's last answer.
    """
    made = tail.made
    for number in chain(_ends(made), _behind_changes(tail)):
        nth = _last_answer(made, number)
        before = made[nth] if nth >= 0 else frozen.answer
        # A result, or a further part of the same foreign message, may still come into this group.
        if isinstance(before, ToolGroup) and _is_open(before) and _goes_on(made, number):
            continue
        # An empty answer has no message, but a position: it may be one behind the messages around it.
        said = [p for unit in tail.units[:number] for message in unit for p in message.positions]
        last = max([p for one in made[:number] for p in one.positions] + said, default=0)
        first = min([p for one in made[number:] for p in one.positions], default=ENDLESS)
        rows = [row for row in tail.rows if row.entry.position < first]
        rest = tail.rows[len(rows) :]
        if max(last, rows[-1].entry.position if rows else 0) > upto:
            continue
        # A later row may belong before the end, or take some of the prefix out of context.
        if last >= first or [row for row in rest if not row.plain and changes_context(row.entry.event)]:
            continue
        # An own error goes once the lane has answered, so it cannot be frozen before that.
        if [row for row in rows if not row.plain and row.entry.position > answered and _is_own_error(row)]:
            continue
        frozen.add(tail.units[:number], rows, tail.left_out, last)
        frozen.answer = before if isinstance(before, ToolGroup) else None
        return number
    return 0


def _is_own_error(row: WindowRow) -> bool:
    # An error of another lane is in the window for the text that had arrived before it.
    if not isinstance(row.entry.event, LlmError):
        return False
    return any(message.role == "assistant" for message in row.messages) or not says_something(
        row.entry.event.parts
    )


def _last_answer(made: Sequence[ToolGroup | Message], number: int) -> int:
    """Return the index of the last answer among the first `number` units; -1 if none."""
    while number and not isinstance(made[number - 1], ToolGroup):
        number -= 1
    return number - 1


def _is_open(answer: ToolGroup) -> bool:
    return not answer.complete or bool(answer.said.joins)


def _goes_on(made: Sequence[ToolGroup | Message], number: int) -> bool:
    return number == len(made) or not isinstance(made[number], ToolGroup)


def _ends(made: Sequence[ToolGroup | Message]) -> list[int]:
    """Return possible ends of the frozen prefix, the furthest first: around the last answer.

    If that is long ago, some units before the end.
    """
    last, ends = _last_answer(made, len(made)), list[int]()
    if len(made) - last > LONG:
        ends.append(_not_between_own(made, len(made) - SLACK))
    answer = made[last] if last >= 0 else None
    if isinstance(answer, ToolGroup):
        # Behind the answer itself only if no result and no further part of it can come.
        if answer.results and not _is_open(answer):
            ends.append(last + 1)
        ends.append(_not_between_own(made, last))
    return ends


def _behind_changes(tail: TailContents) -> Iterator[int]:
    changes = (row for row in reversed(tail.rows) if not row.plain and changes_context(row.entry.event))
    last = next((row.entry.position for row in changes), 0)
    if last:
        made = tail.made
        behind = (n for n in range(len(made), 0, -1) if min(made[n - 1].positions, default=0) <= last)
        yield _not_between_own(made, next(behind, 0))


def _not_between_own(made: Sequence[ToolGroup | Message], number: int) -> int:
    """Return the number, or the start of the run of own words around it."""
    # APIs write neighbouring messages of the lane as one turn, which must not be frozen in half.
    while number and _ends_with_own(made[number - 1]):
        number -= 1
    return number


def _ends_with_own(unit: ToolGroup | Message) -> bool:
    return not unit.results if isinstance(unit, ToolGroup) else unit.role == "assistant"
