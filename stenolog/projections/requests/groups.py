"""Stages 3 and 7, groups and seals: an answer with its calls and all their results is one unit, and in
it every call has exactly one result.

A result belongs in place until the lane's next answer. From then on the seal that this answer was
built on is final, and the true result appears where it arrived, as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stenolog.domain.parts import Text
from stenolog.projections.pairing import CallKey

from .model import Piece
from .quoting import note
from .voice import in_prose_result

RUNNING = note("no result yet: the call is still running")
INTERRUPTED = note("no result: the call was interrupted")
PREVIEW = note("a preview: there is nothing to answer here yet")
_NO_ASK = frozenset({"summary", "late-result", "second-result", "orphan-result", "preview-note"})


class Group:
    """An answer, the results of its calls, and whether the lane was interrupted over them."""

    def __init__(self, said: Piece) -> None:
        self.said = said
        self.results: dict[CallKey, Piece] = {}
        self.interrupted = False

    def joins(self, piece: Piece) -> bool:
        """Whether the piece is a further part of the same answer."""
        return bool(piece.joins) and piece.joins == self.said.joins

    def join(self, piece: Piece) -> None:
        """Take the piece in as a further part of the answer."""
        self.said = self.said._replace(
            parts=self.said.parts + piece.parts,
            positions=self.said.positions + piece.positions,
            calls=self.said.calls + piece.calls,
        )

    def takes(self, piece: Piece) -> bool:
        """Take the result of one of its calls, if that has none yet."""
        if piece.call is None or piece.call not in self.said.calls or piece.call in self.results:
            return False
        self.results[piece.call] = piece
        return True

    def pending(self) -> list[CallKey]:
        """The calls that have no result yet."""
        return [key for key in self.said.calls if key not in self.results]

    def pieces(self) -> Iterator[Piece]:
        """The answer and one result for each call, in the order of the calls."""
        yield self.said
        for key in self.said.calls:
            yield self.results.get(key) or self._seal(key)

    def _seal(self, key: CallKey) -> Piece:
        text, rule = (INTERRUPTED, "sealed-interrupted") if self.interrupted else (RUNNING, "sealed-running")
        return Piece(
            "tool", (Text(text=text),), (key.position,), rule, "added", call=key, failed=self.interrupted
        )


class Sealed(NamedTuple):
    """The pieces as they may be sent, and whether anyone would send them: empty `reason` means yes."""

    pieces: list[Piece]
    reason: str


def seal(pieces: Iterable[Piece]) -> Sealed:
    """Group the pieces, seal what is open, and close what ends with the agent's own word by a note."""
    units = _units(pieces)
    reason = _why_not(units)
    flat: list[Piece] = []
    for unit in units:
        flat += unit.pieces() if isinstance(unit, Group) else [unit]
    flat = [piece for piece in flat if piece.parts or piece.role == "tool"]
    if not flat or flat[-1].role == "assistant":
        last = flat[-1].positions[-1:] if flat else ()
        flat.append(Piece("user", (Text(text=PREVIEW),), last, "preview-note", "added"))
    return Sealed(flat, reason)


def _units(pieces: Iterable[Piece]) -> list[Group | Piece]:
    units: list[Group | Piece] = []
    answer: Group | None = None
    for piece in pieces:
        if piece.role == "assistant" and piece.rule != "partial":
            if answer is not None and units[-1] is answer and answer.joins(piece):
                answer.join(piece)
            else:
                answer = Group(piece)
                units.append(answer)
        elif piece.role == "tool":
            if answer is None or not answer.takes(piece):
                units.append(in_prose_result(piece)._replace(rule="late-result"))
        else:
            if answer is not None and piece.rule.endswith("interrupted-note"):
                answer.interrupted = True
            units.append(piece)
    return units


def _why_not(units: list[Group | Piece]) -> str:
    """Why nobody would send this: empty where there is something to answer."""
    last = max((i for i, unit in enumerate(units) if isinstance(unit, Group)), default=-1)
    asked = any(
        isinstance(unit, Piece)
        and unit.role == "user"
        and unit.rule not in _NO_ASK
        and "note" not in unit.rule
        for unit in units[last + 1 :]
    )
    if asked:
        return ""
    answer = units[last] if last >= 0 else None
    if not isinstance(answer, Group):
        return "nothing has been said to this agent yet"
    if not answer.said.calls:
        return "nothing to answer: the last word is the agent's own"
    if pending := answer.pending():
        return f"{len(pending)} of its calls have no result yet"
    return ""
