"""Stages 3 and 7, groups and seals: an answer with its calls and all their results is one unit, and in
it every call has exactly one result.

A result belongs in place until the lane's next answer. From then on the seal that this answer was
built on is final, and the true result appears where it arrived, as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set

from stenolog.domain.parts import Text
from stenolog.projections.pairing import CallKey

from .model import Piece
from .quoting import note
from .voice import Ear, in_prose_result

RUNNING = note("no result yet: the call is still running")
INTERRUPTED = note("no result: the call was interrupted")
HIDDEN = note("there was a result; it is not shown here")
PREVIEW = note("a preview: there is nothing to answer here yet")


class Group:
    """An answer, the results of its calls, and what is known of those that are not shown."""

    def __init__(self, said: Piece, hidden: Set[CallKey]) -> None:
        self.said = said
        self.results: dict[CallKey, Piece | None] = dict.fromkeys(said.calls)
        self.hidden = hidden
        self.interrupted = False

    def joins(self, piece: Piece) -> bool:
        """Whether the piece is a further part of the same answer."""
        return bool(piece.joins) and piece.joins == self.said.joins

    def join(self, piece: Piece) -> None:
        """Take the piece in as a further part of the answer."""
        self.results |= dict.fromkeys(piece.calls)
        self.said = self.said._replace(
            parts=self.said.parts + piece.parts,
            positions=self.said.positions + piece.positions,
            calls=self.said.calls + piece.calls,
        )

    def takes(self, piece: Piece) -> bool:
        """Take the result of one of its calls, if that has none yet."""
        if piece.call is None or self.results.get(piece.call, piece) is not None:
            return False
        self.results[piece.call] = piece
        return True

    def pieces(self) -> Iterator[Piece]:
        """The answer and one result for each call, in the order of the calls."""
        yield self.said
        for key, result in self.results.items():
            yield result or self._seal(key)

    def _seal(self, key: CallKey) -> Piece:
        text, rule = RUNNING, "sealed-running"
        if key in self.hidden:
            text, rule = HIDDEN, "sealed-hidden"
        elif self.interrupted:
            text, rule = INTERRUPTED, "sealed-interrupted"
        failed = rule == "sealed-interrupted"
        return Piece("tool", (Text(text=text),), (key.position,), rule, "added", call=key, failed=failed)


def units(pieces: Iterable[Piece], hidden: Set[CallKey], ear: Ear) -> list[tuple[Piece, ...]]:
    """The pieces in units that are never cut in two: an answer with one result for each of its calls, or
    one piece of anything else.

    `hidden` are the calls whose results are in the log and not shown here.
    """
    made = (unit.pieces() if isinstance(unit, Group) else [unit] for unit in _units(pieces, hidden, ear))
    heard = (tuple(piece for piece in unit if piece.parts or piece.role == "tool") for unit in made)
    return [unit for unit in heard if unit]


def closed(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces, closed by a note where they end with the agent's own word."""
    if pieces and pieces[-1].role != "assistant":
        return list(pieces)
    last = pieces[-1].positions[-1:] if pieces else ()
    return [*pieces, Piece("user", (Text(text=PREVIEW),), last, "preview-note", "added")]


def _units(pieces: Iterable[Piece], hidden: Set[CallKey], ear: Ear) -> list[Group | Piece]:
    """The answers with their results, and between them everything else, as text where it must be."""
    units: list[Group | Piece] = []
    answer: Group | None = None
    called: set[CallKey] = set()
    for piece in pieces:
        called.update(piece.calls)
        if answer is not None and piece.interrupts:
            answer.interrupted = True
        if piece.role == "tool":
            if answer is None or not answer.takes(piece):
                rule = "late-result" if piece.call in called else "orphan-result"
                units.append(in_prose_result(piece, ear)._replace(rule=rule))
        elif piece.role != "assistant":
            units.append(piece)
        elif piece.rule == "partial":  # it was built on the seals before it, as an answer is
            answer = None if answer is not None and None in answer.results.values() else answer
            units.append(piece)
        elif answer is not None and units[-1] is answer and answer.joins(piece):
            answer.join(piece)
        else:
            answer = Group(piece, hidden)
            units.append(answer)
    return units
