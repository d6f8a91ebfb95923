"""Money and tokens by day, model, agent and tool; the dearest requests; the price of compactions.

Sums are of whole numbers, so those of each axis are the total to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from heapq import nsmallest
from typing import Literal, NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.lanes.limits import MICRO_PER_USD, Tokens
from stenolog.projections.prices import Price, Prices, millionths, price_of, rounded

from .usage import UsageRow, leaves_unknown, read, understates, usage

Axis: TypeAlias = Literal["day", "model", "agent", "tool"]
AXES: tuple[Axis, ...] = ("day", "model", "agent", "tool")
DEAREST = 10
"""The dearest requests that are listed."""


class Spent(NamedTuple):
    """Sums of calls: tokens, and their known cost in millionths of a micro-dollar.

    `cached` and `written` are parts of `input`. `unknown` counts calls whose cost is not known, or only in
    part.
    """

    calls: int = 0
    input: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0
    cost: int = 0
    unknown: int = 0

    @property
    def micro_usd(self) -> int:
        """The known cost in micro-dollars."""
        return rounded(self.cost)

    def plus(self, other: Spent, sign: int = 1) -> Spent:
        """Return the sum of both; with `sign` -1, the difference."""
        return Spent(*(mine + sign * theirs for mine, theirs in zip(self, other, strict=True)))


def together(sums: Iterable[Spent]) -> Spent:
    """Return several sums as one."""
    return Spent(*map(sum, zip(*sums, strict=True)))


NOTHING = Spent()
Sums: TypeAlias = dict[str, dict[str, Spent]]
"""Sums by axis, then by name."""


class SpentCall(NamedTuple):
    """A model call: the answer or error at `position`, the request at `at`, and what it used.

    `kind` is the answer's purpose, or "error". `tool` is that of `UsageRow`.
    """

    position: int
    at: int
    lane: str
    model: str
    tool: str
    kind: str
    spent: Spent


class Spending:
    """Sums of a conversation's calls at some prices; it takes the log entry by entry.

    Entries up to `after` count nothing: they are the parent's of a fork. Days are those of UTC.
    """

    def __init__(self, prices: Prices, after: int = 0) -> None:
        self.position = 0
        self.digest = ""
        self.calls: list[SpentCall] = []
        self.total = NOTHING
        self.axes: Sums = {axis: {} for axis in AXES}
        self._prices, self._after = prices, after
        self._known: dict[str, Price | None] = {}
        self._read = usage.initial

    def take(self, entry: Entry) -> None:
        """Take the next entry in."""
        self._read, row = read(self._read, entry)
        self.position, self.digest = entry.position, entry.digest
        if row is None or entry.position <= self._after or not _is_call(row.event):
            return
        spent = self._spent(row)
        self.calls.append(_call(entry, row, spent))
        self.total = self.total.plus(spent)
        day = f"{entry.time:%Y-%m-%d}"
        names = {"day": day, "model": row.model, "agent": row.lane.partition("/")[0], "tool": row.tool}
        for axis, name in names.items():
            sums = self.axes[axis]
            sums[name] = sums.get(name, NOTHING).plus(spent)

    def so_far(self) -> Spending:
        """Return these sums as they are now; they stay when this takes more entries."""
        found = copy(self)
        found.calls = [*self.calls]
        found.axes = {axis: {**sums} for axis, sums in self.axes.items()}
        return found

    def _spent(self, row: UsageRow) -> Spent:
        event = row.event
        assert isinstance(event, AssistantMessage | LlmError)
        used = event.usage
        if used is None:
            return Spent(calls=1, unknown=int(leaves_unknown(event)))
        if used.cost is not None:
            cost, is_known = used.cost * MICRO_PER_USD, True
        else:
            if row.model not in self._known:
                self._known[row.model] = price_of(row.model, self._prices)
            price, tokens = self._known[row.model], Tokens().plus(used)
            cost = 0 if price is None else millionths(price, tokens)
            is_known = price is not None or not any(tokens)
        is_least = not is_known or (isinstance(event, AssistantMessage) and understates(event))
        return Spent(1, used.input, used.cache_read, used.cache_write, used.output, cost, int(is_least))


def _is_call(event: object) -> bool:
    return isinstance(event, AssistantMessage) or (isinstance(event, LlmError) and event.category != "budget")


def _call(entry: Entry, row: UsageRow, spent: Spent) -> SpentCall:
    event = row.event
    assert isinstance(event, AssistantMessage | LlmError)
    at = entry.position - 1 if event.receipt is None else event.receipt.view
    kind = event.purpose if isinstance(event, AssistantMessage) else "error"
    return SpentCall(entry.position, max(at, 1), row.lane, row.model, row.tool, kind, spent)


def spending(entries: Iterable[Entry], prices: Prices) -> Spending:
    """Return the sums of a log at some prices."""
    found = Spending(prices)
    for entry in entries:
        found.take(entry)
    return found


def dearest(calls: Iterable[SpentCall], most: int = DEAREST) -> list[SpentCall]:
    """Return the calls that cost most; of equal ones those with more tokens, then the earlier ones."""
    return nsmallest(most, calls, key=lambda call: (*dearness(call.spent), call.position))


def dearness(spent: Spent) -> tuple[int, int]:
    """Return the key by which the dearest comes first: the cost, then tokens, since not all have a price."""
    return -spent.cost, -spent.input - spent.output


def by_cost(sums: dict[str, Spent], axis: str) -> list[tuple[str, Spent]]:
    """Return the sums of an axis, the dearest first; days in their order."""
    if axis == "day":
        return sorted(sums.items())
    return sorted(sums.items(), key=lambda each: (*dearness(each[1]), -each[1].calls, each[0]))


class CompactionCost(NamedTuple):
    """A compaction: its price, and what it saves.

    `cost` is that of the call that wrote the summary, and `missed` that of what the next request read anew
    for it; None: not known. `tokens` are those that the next request is shorter, as billed. `saved` is their
    price from the cache, for each of the `calls` until the next compaction. Costs are micro-dollars.
    """

    position: int
    kind: str
    cost: int | None
    missed: int | None
    tokens: int | None
    saved: int | None
    calls: int


def compaction_costs(
    marks: Sequence[tuple[int, str]],
    calls: Sequence[SpentCall],
    lane: str,
    missed: Callable[[int], int | None],
    prices: Prices,
) -> list[CompactionCost]:
    """Return what a lane's compactions, by position and kind, cost and save.

    `missed` is the price of what the answer at a position read anew; None if unknown.
    """
    own = {call.position: call for call in calls if call.lane == lane}
    steps = [call for call in own.values() if call.kind == "answer" and call.spent.input]
    found = []
    for (at, kind), end in zip(marks, [*(at for at, _ in marks[1:]), None], strict=False):
        before = next((call for call in reversed(steps) if call.position < at), None)
        after = [call for call in steps if call.position > at and (end is None or call.position < end)]
        tokens = before.spent.input - after[0].spent.input if before and after else None
        price = price_of(after[0].model, prices) if after else None
        saved = None if tokens is None or price is None else round(tokens * price.cached)
        wrote = own.get(at)
        cost = 0 if kind != "compaction" else None
        if wrote is not None and not wrote.spent.unknown:
            cost = wrote.spent.micro_usd
        anew = missed(after[0].position) if after else 0
        found.append(CompactionCost(at, kind, cost, anew, tokens, saved, len(after)))
    return found
