"""Stage 5, grouped: an answer with its calls and exactly one result for each is one unit.

A result belongs in place until the lane's next answer. Then the placeholder that this answer was built on is
final, and the true result appears where it arrived, as text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from stenolog.domain.lanes.state import PAUSED
from stenolog.domain.parts import TextPart
from stenolog.projections.messages.message import Message
from stenolog.projections.messages.quoting import note
from stenolog.projections.views.tool_pairs import CallKey

from .attribution import in_prose_result
from .attribution_style import AttributionStyle
from .measure import HIDDEN, INTERRUPTED, RUNNING, UNRECORDED

PREVIEW = note("a preview: there is nothing to answer here yet")
PREVIEW_RULE = "preview-note"
"""The rule of that note, which is in no request that is sent."""
TURN = note("it is your turn")


class Waits(Protocol):
    """Test whether a call without a result may still get one; `is_latest`: no answer came since."""

    def __call__(self, call: CallKey, *, is_latest: bool) -> bool: ...


class ToolGroup:
    """An answer, the results of its calls, and what is known of hidden ones."""

    def __init__(self, said: Message) -> None:
        self.said = said
        self.results: dict[CallKey, Message | None] = dict.fromkeys(said.calls)
        self.interrupted = False

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions of the answer, an empty one too."""
        return self.said.positions

    @property
    def complete(self) -> bool:
        """True if every call has its result."""
        return None not in self.results.values()

    def joins(self, message: Message) -> bool:
        """Return whether the message is a further part of the same answer."""
        return bool(message.joins) and message.joins == self.said.joins

    def join(self, message: Message) -> None:
        """Take a further part of the answer in."""
        self.results |= dict.fromkeys(message.calls)
        self.said = self.said._replace(
            parts=self.said.parts + message.parts,
            positions=self.said.positions + message.positions,
            calls=self.said.calls + message.calls,
            # The size of the first part alone would hide the others from the budget.
            size=None,
        )

    def takes(self, message: Message) -> bool:
        """Take the first result of one of its calls."""
        if message.call is None or self.results.get(message.call, message) is not None:
            return False
        self.results[message.call] = message
        return True

    def unit(
        self, is_hidden: Callable[[CallKey], bool], waits: Waits, *, is_latest: bool
    ) -> tuple[Message, ...]:
        """Return the answer, if it says anything, and one result for each call, in the order of the calls."""
        made = [self.said] if self.said.parts else []
        for key, result in self.results.items():
            # An empty result stays: without it, its call would have none.
            made.append(result or self._placeholder(key, is_hidden, waits, is_latest))
        return tuple(made)

    def _placeholder(
        self, key: CallKey, is_hidden: Callable[[CallKey], bool], waits: Waits, is_latest: bool
    ) -> Message:
        if is_hidden(key):
            text, rule = HIDDEN, "placeholder-hidden"
        elif self.interrupted:
            text, rule = INTERRUPTED, "placeholder-interrupted"
        elif waits(key, is_latest=is_latest):
            text, rule = RUNNING, "placeholder-running"
        else:
            text, rule = UNRECORDED, "placeholder-unrecorded"
        failed = rule == "placeholder-interrupted"
        return Message(
            "tool", (TextPart(text=text),), (key.position,), rule, "added", call=key, failed=failed
        )


class ToolGrouper:
    """A grouper of messages: answers with results, and everything else between, as text if need be.

    `answer` is the last answer before them, `called` are the earlier calls.
    """

    def __init__(
        self, style: AttributionStyle, answer: ToolGroup | None = None, called: Collection[CallKey] = ()
    ) -> None:
        self.made: list[ToolGroup | Message] = []
        self.answer = answer
        self._style = style
        self._before = called
        self._called: set[CallKey] = set()

    def add(self, message: Message) -> None:
        """Take the next message in."""
        self._called.update(message.calls)
        answer = self.answer
        if answer is not None and message.interrupts:
            answer.interrupted = True
        if message.role == "tool":
            if answer is None or not answer.takes(message):
                was_called = message.call in self._called or message.call in self._before
                # The placeholder that an answer was built on is final, so a later result appears where it
                # arrived, as text.
                rule = "late-result" if was_called else "orphan-result"
                self.made.append(in_prose_result(message, self._style)._replace(rule=rule))
        elif message.role != "assistant":
            self.made.append(message)
        # It was built on the placeholders before it, as an answer is: they are final from then on.
        elif message.rule == "partial":
            self.answer = None if answer is not None and not answer.complete else answer
            self.made.append(message)
        elif answer is not None and self.made and self.made[-1] is answer and answer.joins(message):
            answer.join(message)
        else:
            self.answer = ToolGroup(message)
            self.made.append(self.answer)

    def units(self, is_hidden: Callable[[CallKey], bool], waits: Waits) -> list[tuple[Message, ...]]:
        """Return units that are never split: an answer with one result for each call, or one other message.

        A unit without content is empty. `is_hidden`: a call has a hidden result in the log; `waits`: it may
        still get one.
        """
        units: list[tuple[Message, ...]] = []
        for unit in self.made:
            if isinstance(unit, ToolGroup):
                units.append(unit.unit(is_hidden, waits, is_latest=unit is self.answer))
            else:
                units.append((unit,) if unit.parts else ())
        return units


def grouped(
    messages: Iterable[Message],
    style: AttributionStyle,
    results: Mapping[CallKey, int],
    shown: Collection[int],
    waits: Waits,
) -> list[tuple[Message, ...]]:
    """Return messages in units as `ToolGrouper.units`.

    `results` has the position of each call's result, `shown` the shown positions.
    """
    grouper = ToolGrouper(style)
    for message in messages:
        grouper.add(message)
    return grouper.units(lambda call: call in results and results[call] not in shown, waits)


def preview_note(last: Message | None) -> list[Message]:
    """Return the note that closes a conversation which ends with the agent's own word, or is empty.

    After another agent's word shown as its own, and after a paused answer, the note says that it is the
    agent's turn.
    """
    if last is not None and last.role != "assistant":
        return []
    positions = last.positions[-1:] if last else ()
    if last is not None and (last.rule == "shared" or last.stop == PAUSED):
        return [Message("user", (TextPart(text=TURN),), positions, "turn-note", "added")]
    return [Message("user", (TextPart(text=PREVIEW),), positions, PREVIEW_RULE, "added")]
