"""Summaries: the lanes that each was made for, and the positions that it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stenolog.domain.events import AssistantMessage, Event
from stenolog.domain.values import PositionRange, Receipt

Spans = Sequence[PositionRange]


class Summary(NamedTuple):
    """A summary at a position: the address of its author's lane, the spans it stands for, the lanes named.

    It was made for its author's lane, and for those named in `to`: by address, or all lanes of an agent by
    its name. It hides nothing from any other.
    """

    position: int
    author: str
    spans: tuple[PositionRange, ...]
    to: tuple[str, ...] = ()

    @property
    def last(self) -> int:
        """The last position that it covers."""
        return max(span.last for span in self.spans)

    def is_for(self, where: str) -> bool:
        """Return whether it was made for the lane of an address."""
        return where in (self.author, *self.to) or where.partition("/")[0] in self.to

    @property
    def lanes(self) -> tuple[str, ...]:
        """The addresses that it was made for, and names of agents."""
        return (self.author, *self.to)

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
        """Return whether the summary covers a part of the other one's positions, but not all of them."""
        touches = any(a.first <= b.last and b.first <= a.last for a in self.spans for b in other.spans)
        return touches and not self.holds(other)


def summary_of(position: int, event: Event, earlier: Iterable[Summary] = ()) -> Summary | None:
    """Return the summary that an entry makes, with the positions that its author was sent; None for others.

    `earlier` are the summaries that hold: where the author was sent one, it was told what that one covers.
    """
    match event:
        case AssistantMessage(covers=(_, *_) as spans):
            made = Summary(position, address(event.agent, event.task), tuple(spans), tuple(event.to))
            if event.receipt is not None:
                made = _as_sent(made, event.receipt, earlier)
            return made if made.spans else None
        case _:
            return None


def _as_sent(made: Summary, receipt: Receipt, earlier: Iterable[Summary]) -> Summary:
    """Return a summary without what its author's request did not have: what came later, or was cut."""
    cut = [PositionRange(first=first, last=last) for first, last in cut_runs(receipt)]
    since = PositionRange(first=max(receipt.view + 1, 1), last=max(made.position, receipt.view + 1))
    told = [
        other.spans
        for other in earlier
        if made.holds(other) and other.is_for(made.author) and other.position not in since
        if not any(other.position in run for run in cut)
    ]
    unsent = [span for run in cut for span in without([run], [span for spans in told for span in spans])]
    return made._replace(spans=without(made.spans, [*unsent, since]))


def cut_runs(receipt: Receipt) -> list[tuple[int, int]]:
    """Return the runs cut from a request; its plan may hold other things, too."""
    cut = receipt.plan.get("cut")
    found = []
    for run in cut if isinstance(cut, Sequence) else ():
        match run:
            case [int(first), int(last)] if 0 < first <= last:
                found.append((first, last))
            case _:
                pass
    return found


def without(spans: Iterable[PositionRange], holes: Spans) -> tuple[PositionRange, ...]:
    """Return the spans without the positions in some others."""
    gone = sorted((hole.first, hole.last) for hole in holes)
    made: list[PositionRange] = []
    for span in spans:
        first = span.first
        for begin, end in gone:
            if begin > span.last:
                break
            if first < begin:
                made.append(PositionRange(first=first, last=begin - 1))
            first = max(first, end + 1)
        if first <= span.last:
            made.append(PositionRange(first=first, last=span.last))
    return tuple(made)


def fault(made: Summary, summaries: Iterable[Summary], open_calls: Iterable[int]) -> str:
    """Return why a summary must not replace the messages that it covers; empty if it may.

    `summaries` are those that hold so far, `open_calls` the positions of calls without a result.
    """
    for span in made.spans:
        if not span.first <= span.last < made.position:
            return f"covers {span.first}-{span.last}, which is not within 1-{made.position - 1}"
    # The result that is still to come would have lost its call.
    for position in open_calls:
        if made.covers(position):
            return f"covers {in_words(made.spans)}, and in it the open call at {position}"
    for other in summaries:
        # A part of a summary cannot be taken out of it.
        if _share(made, other) and made.overlaps_partly(other):
            return f"covers {in_words(made.spans)}, and so a part of the summary of {in_words(other.spans)}"
    return ""


def _share(made: Summary, other: Summary) -> bool:
    """Return whether both were made for one lane at least."""
    return any(map(made.is_for, other.lanes)) or any(map(other.is_for, made.lanes))


def joined(summaries: Iterable[Summary], made: Summary) -> tuple[Summary, ...]:
    """Return the summaries that hold once one more does, which ends those that it holds for their lanes."""
    ended = [other for other in summaries if made.holds(other) and all(map(made.is_for, other.lanes))]
    return (*(other for other in summaries if other not in ended), made)


def in_words(spans: Spans) -> str:
    """Return the spans as `1-4, 7-9`."""
    return ", ".join(f"{span.first}-{span.last}" for span in spans)


def address(agent: str, task: str = "") -> str:
    """Return the address of a lane: `agent`, or `agent/task`."""
    return f"{agent}/{task}" if task else agent
