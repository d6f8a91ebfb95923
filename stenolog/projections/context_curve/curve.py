"""Curve of a lane's context: its samples and marks, the numbers in it, and its picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from itertools import pairwise
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.lanes.state import address
from stenolog.projections.formats.base import Format
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.sizes import COUNTERS, Counter
from stenolog.projections.requests import LaneId
from stenolog.projections.requests.lane_rates import LaneRates
from stenolog.projections.requests.pipeline.lane_apis import asked_api

from .plot import Link, Note, plot
from .samples import Mark, MarkKind, Sample, as_billed
from .tracer import ContextTracer

STEPS = 12
"""The largest steps that are listed."""


class Step(NamedTuple):
    """The growth from one request to the next, in tokens as sent; negative if it became smaller."""

    position: int
    at: int
    tokens: int
    size: int


class ContextCurve(NamedTuple):
    """The context of a lane over time, up to the entry at `position`.

    `waiting`: so many of the newest requests are not measured yet, and have no `tokens`.
    """

    conversation: str
    agent: str
    task: str
    api: str
    position: int
    samples: Sequence[Sample] = ()
    marks: Sequence[Mark] = ()
    waiting: int = 0

    @property
    def largest(self) -> Sample | None:
        """The largest request, as billed or else as rebuilt; None without a call."""
        return max(self.samples, key=lambda sample: (sample.size, -sample.position), default=None)

    @property
    def budget(self) -> int | None:
        """The budget in tokens of the last request, or None."""
        return self.samples[-1].budget if self.samples else None

    def count(self, kind: MarkKind) -> int:
        """Count the marks of a kind."""
        return sum(mark.kind == kind for mark in self.marks)

    def steps(self, most: int = STEPS) -> list[Step]:
        """Return the largest changes from one request to the next, the largest first."""
        # A call that failed may state no bill, and what was rebuilt is another measure than what was billed.
        alike = [each for each in self.samples if each.billed is not None] or self.samples
        changes = ((now.size - was.size, now) for was, now in pairwise(alike) if now.size != was.size)
        largest = nsmallest(most, changes, key=lambda change: -abs(change[0]))
        return [Step(now.position, now.at, change, now.size) for change, now in largest]

    def svg(
        self,
        *,
        link: Link | None = None,
        at: int = 0,
        standalone: bool = True,
        notes: Sequence[Note] = (),
    ) -> str:
        """Return the picture as SVG; see `plot`."""
        where = address(self.agent, self.task)
        title = f"Context of {where} in {self.conversation}: tokens of each request"
        return plot(
            self.samples,
            self.marks,
            self.position,
            title,
            link=link,
            at=at,
            standalone=standalone,
            notes=notes,
        )

    def _repr_svg_(self) -> str:
        return self.svg()


def context_curve(
    entries: Iterable[Entry],
    agent: str,
    *,
    task: str = "",
    api: str | Format | None = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> ContextCurve:
    """Return the context of a lane over time; `api` None: that of its answers."""
    log = list(entries)
    lane = LaneId(agent, task)
    chosen = asked_api(api, log, lane)
    tracer = ContextTracer(lane, chosen, lambda after, at: log[after:at], counters, blobs)
    tracer.extend(len(log))
    name = chosen if isinstance(chosen, str) else chosen.name
    talk = log[-1].conversation if log else ""
    samples = as_billed(tracer.samples, LaneRates(lane).extend(log))
    return ContextCurve(talk, agent, task, name, len(log), samples, tracer.marks)
