"""Rules for summaries that overlap: a larger one wins, and half of another is left alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .values import PositionRange


class Summary(NamedTuple):
    """A summary: where it stands, whose it is, and the spans whose place it takes."""

    position: int
    agent: str
    spans: tuple[PositionRange, ...]

    @property
    def last(self) -> int:
        """The last position that it covers."""
        return max(span.last for span in self.spans)

    def covers(self, position: int) -> bool:
        """Return whether the summary replaces that position."""
        return any(span.first <= position <= span.last for span in self.spans)

    def holds(self, other: Summary) -> bool:
        """Return whether the summary covers all that the other one covers."""
        return all(
            any(outer.first <= span.first and span.last <= outer.last for outer in self.spans)
            for span in other.spans
        )

    def overlaps_partly(self, other: Summary) -> bool:
        """Return whether the summary covers a part of what the other one covers, but not all of it."""
        touches = any(a.first <= b.last and b.first <= a.last for a in self.spans for b in other.spans)
        return touches and not self.holds(other)


def fault(made: Summary, summaries: Iterable[Summary], open_calls: Iterable[int]) -> str:
    """Why a summary must not take the place of what it covers; empty where it may.

    `summaries` are those that hold so far, `open_calls` the positions of calls without a result.
    """
    for span in made.spans:
        if not span.first <= span.last < made.position:
            return f"covers {span.first}-{span.last}, which is not within 1-{made.position - 1}"
    for position in open_calls:
        if made.covers(position):
            return f"covers {in_words(made.spans)}, and in it the open call at {position}"
    for other in summaries:
        if made.overlaps_partly(other):
            return f"covers {in_words(made.spans)}, and so a part of the summary of {in_words(other.spans)}"
    return ""


def joined(summaries: Iterable[Summary], made: Summary) -> tuple[Summary, ...]:
    """The summaries that hold once one more does."""
    return (*(other for other in summaries if not made.holds(other)), made)


def in_words(spans: Sequence[PositionRange]) -> str:
    """The spans as `1-4, 7-9`."""
    return ", ".join(f"{span.first}-{span.last}" for span in spans)
