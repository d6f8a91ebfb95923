"""Where a Claude Code session branches: prompts that leave a part of the conversation behind.

Records form a tree by `parentUuid`, but most of its branches are none of the conversation's: parallel
tool results, blocks of one message and progress records branch too. Only a prompt can leave something,
so the tree here is one of turns: a turn is a prompt and all that follows it, up to the next prompt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stenolog.domain.values import Span


@dataclass(eq=False)
class Turn:
    """A prompt and what follows it; `first` is the position it begins at, 0 while nothing is said in it.

    A turn without a parent is a root: where a context begins.
    """

    parent: Turn | None = None
    first: int = 0


class Tree:
    """The turns of a session, in the order they began in, and the one that is going on."""

    def __init__(self) -> None:
        self.origin = Turn()
        self.current = self.origin
        self._turns: list[Turn] = []
        self._of: dict[str, Turn] = {}

    def __contains__(self, uuid: str) -> bool:
        return uuid in self._of

    def note(self, uuid: str, parent: str, *, begins: bool = False) -> None:
        """A record that is no prompt. With `begins`, one without a parent begins a new context."""
        self._of[uuid] = Turn() if begins and not parent else self._of.get(parent, self.current)

    def base(self, parent: str) -> Turn:
        """The turn that a prompt with this parent goes on from."""
        return self._of.get(parent, self.current) if parent else self.origin

    def opens(self, parent: str) -> Turn | None:
        """The new context that is opened by whatever is said first below this parent, if it is one."""
        turn = self._of.get(parent)
        return None if turn is None or turn.first or turn is self.current else turn

    def way(self, base: Turn) -> Literal["on", "reset", "rewind"]:
        """What going on from there means: nothing, a context that begins anew, or a return."""
        if base is self.current or not self._turns:
            return "on"
        return "rewind" if base.first else "reset"

    def start(self, position: int) -> None:
        """Something is said at this position, and belongs to the current turn."""
        if not self.current.first:
            self.current.first = position
            self._turns.append(self.current)

    def prompt(self, uuid: str, position: int) -> None:
        """A prompt stands at this position, and begins a turn."""
        self.current = self._of[uuid] = Turn(parent=self.current)
        self.start(position)

    def forget(self, uuid: str) -> None:
        """The context was cleared by this record: what follows it begins anew."""
        self.current = self._of[uuid] = Turn()

    def hidden(self, base: Turn, last: int) -> tuple[int, tuple[Span, ...]]:
        """Where the context of a turn begins, and the spans up to `last` that are not on its way back."""
        path = {id(base)}
        root = base
        while root.parent is not None:
            root = root.parent
            path.add(id(root))
        ends = [turn.first - 1 for turn in self._turns[1:]] + [last]
        spans: list[Span] = []
        for turn, end in zip(self._turns, ends, strict=True):
            if id(turn) in path or end < max(turn.first, root.first):
                continue
            if spans and spans[-1].last == turn.first - 1:
                spans[-1] = Span(first=spans[-1].first, last=end)
            else:
                spans.append(Span(first=turn.first, last=end))
        return root.first, tuple(spans)
