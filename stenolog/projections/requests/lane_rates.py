"""Rates of a lane over time, by the bills that were known at each position.

They are for logs of other programs: what stenolog sends is counted by the budget's counter.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.erasure import erasure_of
from stenolog.domain.events import AssistantMessage
from stenolog.domain.policy import Policy
from stenolog.domain.values import Origin
from stenolog.projections.messages.sizes import LEARNED, PLAIN, Rate

from .incremental.window_snapshot import START, WindowSnapshot, restore, snapshot_of
from .pipeline.lane import LaneId
from .pipeline.view import View
from .request import PATCH, Request


class LearnedRates(NamedTuple):
    """The state of a lane's rates, enough to continue from; `rates` begin at `positions`."""

    snapshot: WindowSnapshot = START
    positions: list[int] = [0]  # noqa: RUF012 - never changed in place
    rates: list[Rate] = [PLAIN]  # noqa: RUF012 - as above
    is_foreign: bool = False


class LaneRates:
    """The rates of a lane at each position; plain while stenolog sends its requests.

    `position` is the last entry's, `digest` its digest. `kept_at` is that of what is stored.
    `is_foreign`: another program sends them. `usable`
    becomes false if entries were erased, whose bills it has.
    """

    def __init__(self, lane: LaneId) -> None:
        self.position, self.digest, self.usable = 0, "", True
        self.kept_at = 0
        self._view = View(lane, Policy(), LEARNED)
        self.is_foreign = False
        self._positions, self._rates = [0], [PLAIN]

    @property
    def learned(self) -> LearnedRates:
        """All that is needed to continue from here later."""
        return LearnedRates(snapshot_of(self._view), self._positions, self._rates, self.is_foreign)

    def resume(self, learned: LearnedRates, digest: str, entries: Iterable[Entry]) -> LaneRates:
        """Continue from what was learned earlier; `entries` are those at the rows of its snapshot."""
        restore(self._view, learned.snapshot, entries)
        self.position = self.kept_at = learned.snapshot.position
        self.digest, self.is_foreign = digest, learned.is_foreign
        self._positions, self._rates = list(learned.positions), list(learned.rates)
        return self

    def extend(self, entries: Iterable[Entry]) -> LaneRates:
        """Take the next entries in."""
        begins = not self.position
        for entry in entries:
            self.usable &= begins or erasure_of(entry.event) is None
            self._take(entry)
        return self

    def _take(self, entry: Entry) -> None:
        event, view = entry.event, self._view
        self.position, self.digest = entry.position, entry.digest
        view.take(entry)
        # Only its bills are asked for.
        del view.entries[:-1], view.left_out[:-1]
        if view.pairing.pairs:
            view.pairing.forget({each.position for each in view.entries})
        if entry.position == 1:
            self.is_foreign = isinstance(getattr(event, "source", None), Origin)
        elif isinstance(event, AssistantMessage) and view.lane.wrote(event):
            self.is_foreign = event.receipt is None or PATCH in event.receipt.plan
        rate = view.rate if self.is_foreign else PLAIN
        if rate != self._rates[-1]:
            self._positions.append(entry.position)
            self._rates.append(rate)

    def at(self, position: int) -> Rate:
        """Return the rate of the request at a position, by the entries up to it."""
        return self._rates[bisect_right(self._positions, position) - 1]

    def counted(self, request: Request) -> Request:
        """Return a request with its tokens as billed; unchanged if its policy has a budget in tokens."""
        budget, rate = request.policy.budget, self.at(request.at)
        is_plain = rate == PLAIN or (budget is not None and budget.tokens is not None)
        return request if is_plain else request.at_rate(rate)
