"""Small curve of how full the context was, for a list of conversations: a fold of some 40 numbers.

It rebuilds no request: it takes the input tokens that the provider states, else an estimate from what was
said by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.projections.fold import Fold
from stenolog.projections.messages.sizes import count_parts
from stenolog.projections.requests import LaneId
from stenolog.projections.requests.pipeline.omissions import said_by

from .plot import brief
from .samples import answered_by, call_of, mark_of

MOST = 40
"""Points of a lane that are kept; if there would be more, two become one."""
LANES = 12
"""The lanes that are kept: those that answered first."""
WIDE, HIGH = 96, 20


class LanePoints(NamedTuple):
    """The context of a lane: the largest of every `stride` requests, in tokens.

    `held` requests are in the last point. `response` answered the last call. `is_billed`: the points are as
    the provider stated them.
    """

    points: tuple[int, ...] = ()
    stride: int = 1
    held: int = 0
    response: str = ""
    is_billed: bool = False


class ContextPoints(NamedTuple):
    """The contexts of lanes, by address; `said` estimates the tokens in context."""

    said: int = 0
    lanes: dict[str, LanePoints] = {}  # noqa: RUF012 - never changed in place

    @property
    def points(self) -> tuple[int, ...]:
        """The points of the lane that answered first."""
        return next(iter(self.lanes.values()), LanePoints()).points


def _take(now: ContextPoints, entry: Entry) -> ContextPoints:
    event = entry.event
    if isinstance(event, AssistantMessage | LlmError):
        now = _with_call(now, entry, LaneId(event.agent, event.task))
    first = next(iter(now.lanes), "")
    if first and mark_of(entry, LaneId(first.partition("/")[0])):
        # What stays behind it is not known without a window: the next bill tells.
        now = now._replace(said=0)
    spoken = count_parts(said_by(event)) if getattr(event, "in_context", False) else 0
    return now._replace(said=now.said + spoken) if spoken else now


def _with_call(now: ContextPoints, entry: Entry, lane: LaneId) -> ContextPoints:
    if lane.address not in now.lanes and len(now.lanes) == LANES:
        return now
    before = now.lanes.get(lane.address, LanePoints())
    call = call_of(entry, lane, before.response)
    after = before if call is None else _measured(before, call.billed, now.said)
    after = after._replace(response=answered_by(entry.event, lane, before.response))
    if after == before:
        return now
    return now._replace(lanes={**now.lanes, lane.address: after})


def _measured(now: LanePoints, billed: int | None, said: int) -> LanePoints:
    """Return the points with one more request; a curve never mixes bills and estimates."""
    if billed is None:
        return now if now.is_billed else _with_point(now, said)
    if not now.is_billed:
        now = now._replace(points=(), stride=1, held=0, is_billed=True)
    return _with_point(now, billed)


def _with_point(now: LanePoints, tokens: int) -> LanePoints:
    """Return the points with one more request; if there are too many, each two become one."""
    if now.points and now.held < now.stride:
        points = (*now.points[:-1], max(now.points[-1], tokens))
        return now._replace(points=points, held=now.held + 1)
    if len(now.points) < MOST:
        return now._replace(points=(*now.points, tokens), held=1)
    pairs = zip(now.points[::2], now.points[1::2], strict=True)
    return now._replace(points=(*map(max, pairs), tokens), stride=2 * now.stride, held=1)


context_points = Fold("context-points", ContextPoints(), _take, version=2, state=ContextPoints)
"""The fold: `context_points(entries)`, or `conversation.fold(context_points)`, which stores checkpoints."""


def sparkline(points: Sequence[int]) -> str:
    """Return the curve as a small SVG; empty for fewer than two points.

    >>> sparkline([5])
    ''
    """
    if len(points) < 2:
        return ""
    most = max(max(points), 1)
    step = (WIDE - 2) / (len(points) - 1)
    places = [
        f"{1 + nth * step:.1f} {HIGH - 1 - (HIGH - 3) * each / most:.1f}" for nth, each in enumerate(points)
    ]
    words = escape(f"Context: {brief(_rounded(points[-1]))} tokens last, {brief(_rounded(most))} at most")
    line = "L".join(places)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="spark" viewBox="0 0 {WIDE} {HIGH}" width="{WIDE}" '
        f'height="{HIGH}" role="img" aria-label="{words}"><title>{words}</title>'
        f'<path class="area" d="M1 {HIGH}L{line}V{HIGH}z"/><path class="line" d="M{line}"/></svg>'
    )


def _rounded(tokens: int) -> int:
    return round(tokens, 2 - len(str(tokens)))
