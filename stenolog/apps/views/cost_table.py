"""Costs of all conversations: a row for each, kept in memory, and beside the log for the next process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import sha256
from heapq import nsmallest
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from stenolog.adapters.conversation.queries import folds
from stenolog.adapters.conversation.queries.folds import PersistentFold
from stenolog.adapters.conversation.queries.overviews import OVERVIEW, ListedConversation, listed
from stenolog.adapters.providers.prices import source
from stenolog.domain.erasure import erasure_of
from stenolog.domain.errors import StenologError
from stenolog.projections.fold import Fold
from stenolog.projections.prices import Price, Prices
from stenolog.projections.views.overview import Overview
from stenolog.projections.views.spending import (
    AXES,
    DEAREST,
    NOTHING,
    Spending,
    Spent,
    SpentCall,
    Sums,
    dearest,
    dearness,
)

from .caches import calls_of
from .conversations import cost_of
from .costs import axes_data, call_row, sum_data

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation, Log
    from stenolog.domain.entry import Entry

COSTS = "costs "
"""The beginning of a stored row's name; the prices follow."""
VERSION = 2
"""The version of a stored row."""
READ_AT_ONCE = 1000
"""The new entries that are read for their conversations; of more, all heads are compared."""
COMPARED = 5_000
"""The entries up to which a conversation's requests are compared for a table of all."""
MOST = 32
"""The conversations whose calls are kept in memory."""


class CostRow(NamedTuple):
    """A conversation in a list that can be sorted, and its sums.

    `cost` is in micro-dollars, of all entries; None if nothing is known of it. `total`, `sums`, `dearest`
    and what is `own` are without the entries that a fork shares with its parent. `last` is in seconds.
    """

    key: int = 0
    name: str = ""
    position: int = 0
    title: str = ""
    folder: str = ""
    branch: str = ""
    agents: list[str] = []  # noqa: RUF012 - never changed in place
    models: list[str] = []  # noqa: RUF012 - as above
    turns: int = 0
    errors: int = 0
    tokens: int = 0
    cost: int | None = None
    last: float = 0.0
    total: Spent = NOTHING
    sums: Sums = {}  # noqa: RUF012 - as above
    dearest: list[SpentCall] = []  # noqa: RUF012 - as above
    own_turns: int = 0
    own_errors: int = 0


JSON = folds.Json(CostRow)


def reasons_of(conversation: Conversation) -> Mapping[int, str]:
    """Return the reasons for a conversation's cache misses, by position; none of a very long one."""
    if conversation.position > COMPARED:
        return {}
    return {call.position: call.cause.kind for call in calls_of(conversation) if call.is_miss}


class CostTable:
    """The rows of a log's conversations, and their sums; `update` reads what is new.

    One thread updates while others read.
    """

    def __init__(self, log: Log, prices: Prices) -> None:
        self.prices = prices
        self.done = self.due = 0
        self.total = NOTHING
        self.sums: Sums = {axis: {} for axis in ("project", *AXES)}
        self.rows: dict[int, CostRow] = {}
        self._log, self._seen = log, -1
        self._kept_as = _kept_as(prices)
        self._spendings: OrderedDict[tuple[int, int], Spending] = OrderedDict()
        self._dearest: list[tuple[str, SpentCall]] | None = None
        self._updating, self._changing, self._reading = Lock(), Lock(), Lock()

    def update(self, progress: Callable[[list[str]], Any] = lambda names: names) -> CostTable:
        """Read the conversations that are new or have changed, the newest first."""
        with self._updating:
            newest = self._log.last_sequence
            first = self._seen if 0 <= self._seen <= newest else newest
            now = self._log.recorder.moment(first, READ_AT_ONCE)
            names = {each.key: each.name for each in now.conversations}
            changed = {entry.key for entry in now.entries}
            if first != self._seen or len(now.entries) == READ_AT_ONCE:
                changed = {key for key, row in self.rows.items() if self._has_grown(names.get(key), row)}
            for key in self.rows.keys() - names.keys():
                self._put(key, None)
            due = [name for key, name in reversed(names.items()) if key in changed or key not in self.rows]
            self.done, self.due = 0, len(due)
            for name in progress(due):
                if (row := self._row(name)) is not None:
                    self._put(row.key, row)
                self.done += 1
            for key, row in self.rows.items():
                if row.name != names.get(key, row.name):
                    self._put(key, row._replace(name=names[key]))
            self._seen = newest
            return self

    def data(
        self, reasons: Callable[[Conversation], Mapping[int, str] | None] = reasons_of
    ) -> dict[str, Any]:
        """Return the sums of all conversations, and the dearest requests, as JSON.

        `reasons` gives the reasons for a conversation's cache misses, by position; None: not known yet.
        """
        shown = self._sums()
        names = {row["conversation"] for row in shown["dearest"]}
        found = {name: reasons(self._log[name]) for name in sorted(names) if name in self._log}
        for row in shown["dearest"]:
            row["why"] = (found.get(row["conversation"]) or {}).get(row["position"], "")
        return shown

    def _sums(self) -> dict[str, Any]:
        names = set(self._log.names())
        with self._changing:
            if self._dearest is None:
                calls = ((row.name, call) for row in self.rows.values() for call in row.dearest)
                self._dearest = nsmallest(
                    DEAREST, calls, key=lambda each: (*dearness(each[1].spent), each[0], each[1].position)
                )
            return {
                "conversations": len(self.rows),
                "archived": sum(row.name not in names for row in self.rows.values()),
                "total": sum_data("", self.total),
                "by": axes_data(self.sums),
                "dearest": [{"conversation": name, **call_row(call)} for name, call in self._dearest],
            }

    def listed(self) -> list[CostRow]:
        """Return all rows."""
        with self._changing:
            return [*self.rows.values()]

    def spending(self, conversation: Conversation, after: int = 0) -> Spending:
        """Return the sums of a conversation up to its end, without the entries up to `after`."""
        with self._reading:
            place = conversation.key or 0, after
            found = self._spendings.pop(place, None)
            if found is None or not folds.is_at(conversation, found.position, found.digest):
                found = Spending(self.prices, after)
            found = self._extended(conversation, found, after)
            self._spendings[place] = found
            if len(self._spendings) > MOST:
                self._spendings.popitem(last=False)
            return found.so_far()

    def _extended(self, conversation: Conversation, found: Spending, after: int) -> Spending:
        known = found.position
        for entry in conversation.entries(after=known):
            if known and erasure_of(entry.event):
                return self._extended(conversation, Spending(self.prices, after), after)
            found.take(entry)
        return found

    def _has_grown(self, name: str | None, row: CostRow) -> bool:
        return name is not None and self._log[name].position != row.position

    def _row(self, name: str) -> CostRow | None:
        """Return the row of a conversation; None if it is gone or cannot be read."""
        try:
            conversation = self._log[name]
            found, at = folds.load_checkpoint(conversation, self._kept_as, None)
            # A fork finds its parent's too.
            if found.key == conversation.key and at == conversation.position:
                return found._replace(name=name)
            after = self._log.recorder.lineage(conversation.stream)[-1].after
            spending = self.spending(conversation, after)
            row = row_of(listed(conversation), conversation.key or 0, spending, self.prices)
            shared = folds.fold_at(conversation, OVERVIEW, after) if after else Overview()
            row = row._replace(own_turns=row.turns - shared.turns, own_errors=row.errors - shared.errors)
            for entry in conversation.entries(after=row.position - 1, at=row.position):
                folds.save_checkpoint(conversation, self._kept_as, entry, row)
            self._forget_other_prices(row.key)
            return row
        except StenologError:
            return None

    def _forget_other_prices(self, key: int) -> None:
        checkpoints = self._log.checkpoints
        for name in checkpoints.latest(key, COSTS):
            if name != self._kept_as.fold.name:
                checkpoints.forget(key, name)

    def _put(self, key: int, row: CostRow | None) -> None:
        with self._changing:
            before = self.rows.pop(key, None)
            for each, sign in ((before, -1), (row, 1)):
                if each is not None:
                    self._count(each, sign)
            if row is not None:
                self.rows[key] = row
            self._dearest = None

    def _count(self, row: CostRow, sign: int) -> None:
        self.total = self.total.plus(row.total, sign)
        project = {"project": {row.folder: row.total}} if row.total.calls else {}
        for axis, names in {**project, **row.sums}.items():
            sums = self.sums[axis]
            for name, spent in names.items():
                sums[name] = sums.get(name, NOTHING).plus(spent, sign)
                if not sums[name].calls:
                    del sums[name]


def row_of(found: ListedConversation, key: int, spending: Spending, prices: Prices) -> CostRow:
    """Return the row of a conversation."""
    seen = found.overview
    used = [*seen.tokens.values(), *seen.billed.values()]
    return CostRow(
        key,
        found.name,
        spending.position,
        found.title,
        seen.folder,
        seen.branch,
        found.agents,
        found.models,
        seen.turns,
        seen.errors,
        sum(each.input + each.output for each in used),
        cost_of(found, prices)[0],
        found.last.time.timestamp() if found.last and found.is_dated else 0.0,
        spending.total,
        spending.axes,
        dearest(spending.calls),
    )


def _kept_as(prices: Prices) -> PersistentFold[CostRow]:
    given = [price for price in prices if isinstance(price, Price)]
    of_package = source() if len(given) < len(prices) else ""
    named = sha256(repr((given, of_package)).encode()).hexdigest()[:12]
    fold: Fold[CostRow] = Fold(f"{COSTS}{named}", CostRow(), _same, version=VERSION)
    return PersistentFold(fold, JSON.dump, JSON.load)


def _same(row: CostRow, entry: Entry) -> CostRow:
    return row
