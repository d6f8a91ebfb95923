"""Branches of a Claude Code session: prompts that leave a part of the conversation behind.

Records form a tree by `parentUuid`, but most of its branches are none of the conversation's: parallel
tool results, blocks of one message and progress records branch too. Only a prompt can leave something,
so the tree here is one of turns: a turn is a prompt and all that follows it, up to the next prompt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from stenolog.domain.values import PositionRange


@dataclass(eq=False)
class TurnRecords:
    """A prompt and what follows it; `first` is the position it begins at, 0 while nothing is said in it, and
    `last` that of its end, None until another turn begins. `way` leads to its end, once that is known.

    A turn without a parent is a root: where a context begins.
    """

    parent: TurnRecords | None = None
    first: int = 0
    last: int | None = None
    way: Way | None = None


class Way(NamedTuple):
    """The way from the beginning of a context to the end of a turn: where the context begins, the position
    behind the turn, and the spans before it that are not on the way.
    """

    root: int
    next: int
    spans: tuple[PositionRange, ...]


class Tree:
    """The turns of a session, in the order they began in, and the one that is going on."""

    def __init__(self) -> None:
        self.origin = TurnRecords()
        self.current = self.origin
        self._turns: list[TurnRecords] = []
        self._of: dict[str, TurnRecords] = {}

    def __contains__(self, uuid: str) -> bool:
        return uuid in self._of

    def note(self, uuid: str, parent: str, *, begins: bool = False) -> None:
        """A record that is no prompt. With `begins`, one without a parent begins a new context."""
        self._of[uuid] = TurnRecords() if begins and not parent else self._of.get(parent, self.current)

    def drop(self, uuid: str) -> None:
        """Forget where a record stands: its uuid is that of others too."""
        self._of.pop(uuid, None)

    def base(self, parent: str) -> TurnRecords:
        """The turn that a prompt with this parent goes on from."""
        return self._of.get(parent, self.current) if parent else self.origin

    def opens(self, parent: str) -> TurnRecords | None:
        """The new context that is opened by whatever is said first below this parent, if it is one."""
        turn = self._of.get(parent)
        return None if turn is None or turn.first or turn is self.current else turn

    def way(self, base: TurnRecords) -> Literal["on", "reset", "rewind"]:
        """Return the effect of going on from that turn: none, a context that begins anew, or a return."""
        if base is self.current or not self._turns:
            return "on"
        return "rewind" if base.first else "reset"

    def start(self, position: int) -> None:
        """Something is said at this position, and belongs to the current turn."""
        if not self.current.first:
            self.current.first = position
            if self._turns:
                self._turns[-1].last = position - 1
            self._turns.append(self.current)

    def prompt(self, uuid: str, position: int) -> None:
        """A prompt stands at this position, and begins a turn."""
        self.current = self._of[uuid] = TurnRecords(parent=self.current)
        self.start(position)

    def forget(self, uuid: str) -> None:
        """The context was cleared by this record: what follows it begins anew."""
        self.current = self._of[uuid] = TurnRecords()

    def hidden(self, base: TurnRecords, last: int) -> tuple[int, tuple[PositionRange, ...]]:
        """Return the beginning of a turn's context, and the spans up to `last` that are not on its way
        back."""
        way = self._way(base, last)
        return way.root, _with_gap(way.spans, way.next, last)

    def _way(self, turn: TurnRecords, last: int) -> Way:
        """The way to the end of a turn; that of a turn which has ended is kept, and not gone once more."""
        path: list[TurnRecords] = []
        each: TurnRecords | None = turn
        while each is not None and each.way is None:
            path.append(each)
            each = each.parent
        root = path[-1].first if each is None else 0
        way = Way(root, root or self._turns[0].first, ()) if each is None else each.way
        for each in reversed(path):
            assert way is not None, "one that is kept"
            if each.first:
                spans = _with_gap(way.spans, way.next, each.first - 1)
                end = last if each.last is None else each.last
                way = Way(way.root, max(way.next, end + 1), spans)
            if each.last is not None:
                each.way = way
        assert way is not None, "as above"
        return way


def _with_gap(spans: tuple[PositionRange, ...], first: int, last: int) -> tuple[PositionRange, ...]:
    """The spans and one more behind them, if there is anything in it."""
    if last < first:
        return spans
    if spans and spans[-1].last == first - 1:
        return (*spans[:-1], PositionRange(first=spans[-1].first, last=last))
    return (*spans, PositionRange(first=first, last=last))
