"""The arithmetic of a budget: what a conversation measures, the room for it, and what a cut leaves.

A cut is made before the API is known, so that it holds for all of them: each message is measured with what
any API may add to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.sizes import COUNTERS, Counter, Size, total
from stenolog.projections.requests import LaneId, Request
from stenolog.projections.requests.incremental.session import window
from stenolog.projections.requests.pipeline.budget import ENDLESS, caps_now, limits
from stenolog.projections.requests.pipeline.measure import Measure
from stenolog.projections.requests.pipeline.view import Contents


class BudgetRoom(NamedTuple):
    """One limit of a budget, in `unit`, and the sizes that are compared with it, at most on any API.

    `measured` is the size of the conversation without the budget's cuts, `shown` with them. `room` is what
    the limit leaves for it beside what stands around it, and `target` what a cut leaves of that.
    """

    unit: str
    limit: int
    room: int
    measured: int
    shown: int
    target: int


def budget_room(
    request: Request,
    entries: Iterable[Entry],
    *,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> tuple[BudgetRoom, ...]:
    """Return the arithmetic of each limit of a request's budget; `entries` are those of the request."""
    policy, log = request.policy, [*entries]
    if policy.budget is None:
        return ()
    lane, counter = LaneId(request.agent, request.task), counters[policy.counter]
    cut = window(lane, policy, log, counter, blobs)
    measure, seen = Measure(policy.budget, counter, blobs), cut.contents()
    whole = _size(measure, window(lane, replace(policy, budget=None), log, counter, blobs).contents())
    cap = caps_now(cut, seen)[-1]  # the budget's is the last
    sizes = (limits(policy.budget), cap.room, whole, _size(measure, seen), cap.target)
    rooms = (BudgetRoom(*each) for each in zip(Size._fields, *sizes, strict=True))
    return tuple([room for room in rooms if room.limit != ENDLESS])


def _size(measure: Measure, contents: Contents) -> Size:
    return total(measure.of(message) for unit in contents.units for message in unit)
