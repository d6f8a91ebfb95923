"""Requests of a lane as if its summaries had been made earlier, later or never.

A summary is due once a request has more tokens than a limit, as for `AutoSummary(over=…)`. It covers what
that would cover then, with the words of a recorded summary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median_low
from typing import Any, NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, ModeSwitch
from stenolog.domain.lanes.limits import delegated_usage
from stenolog.domain.policy import Policy
from stenolog.domain.values import PositionRange, Usage
from stenolog.projections.messages.sizes import Counter
from stenolog.projections.requests import LaneId, Request, build
from stenolog.projections.views.context import LEAST, middle

MOST_CALLS = 300
"""Calls of a lane up to which they are built again, each from the beginning."""


class Summaries(NamedTuple):
    """The recorded summaries of a lane: positions, how many last messages they left, and one's event.

    `spent` are the tokens of the models that wrote them.
    """

    positions: Sequence[int]
    keep: int
    event: AssistantMessage
    spent: Sequence[tuple[str, Usage]]


class Wanted(NamedTuple):
    """A call to build: the position and policy of its request, its API, and the position of its answer."""

    view: int
    policy: Policy
    api: str
    answer: int


def summaries_of(log: Sequence[Entry], lane: LaneId) -> Summaries | None:
    """Return a lane's recorded summaries of its own conversation; None without any."""
    found = [
        (entry.position, entry.event)
        for entry in log
        if isinstance(entry.event, AssistantMessage) and _is_of(entry.event, lane)
    ]
    if not found:
        return None
    left = [_messages(log, event.covers[-1].last, position) for position, event in found]
    spent = [used for _, event in found for used in delegated_usage(event)]
    return Summaries([position for position, _ in found], max(1, median_low(left)), found[-1][1], spent)


def _is_of(event: AssistantMessage, lane: LaneId) -> bool:
    return event.purpose == "summary" and bool(event.covers) and lane.owns(event) and bool(event.text)


def _messages(log: Sequence[Entry], first: int, last: int) -> int:
    return sum(first < entry.position < last and not isinstance(entry.event, ModeSwitch) for entry in log)


class Compacting:
    """A lane without its recorded summaries, with others once a request has more than `over` tokens.

    `over` 0: without any. `read` are the tokens of the requests in whose place a summary came.
    """

    def __init__(
        self,
        log: Sequence[Entry],
        lane: LaneId,
        known: Summaries,
        over: int,
        blobs: Mapping[str, bytes],
        counters: Mapping[str, Counter],
    ) -> None:
        self.bare = [_bare(entry, lane) for entry in log]
        self.lane, self.known, self.over, self.read = lane, known, over, 0
        self.means: dict[str, Any] = {"task": lane.task, "blobs": blobs, "counters": counters}
        self.spans: tuple[PositionRange, ...] = ()

    def requests(self, calls: Iterable[Wanted]) -> Iterator[Request]:
        """Yield the request of each call. Summaries are due before a call, and after its answer."""
        for call in calls:
            yield self._looked_at(call, call.view)
            self._looked_at(call, call.answer)

    def _looked_at(self, call: Wanted, position: int) -> Request:
        entries = [entry for entry in self.bare if entry.position <= position]
        made = self._built(call, entries)
        if not self.over or made.tokens <= self.over:
            return made
        spans = self._middle(entries)
        if not spans or (self.spans and _messages(entries, self.spans[-1].last, spans[-1].last + 1) < LEAST):
            return made
        self.spans, self.read = spans, self.read + made.tokens
        return self._built(call, entries)

    def _built(self, call: Wanted, entries: Sequence[Entry]) -> Request:
        summary = [_summary(entries[-1], self.known.event, self.spans)] if self.spans else []
        log = [*entries, *summary]
        return build(log, self.lane.agent, api=call.api, policy=call.policy, **self.means)

    def _middle(self, entries: Sequence[Entry]) -> tuple[PositionRange, ...]:
        keep = self.known.keep
        spans = middle(entries, self.lane.address, keep)
        while keep > 1 and not spans:
            keep //= 2
            spans = middle(entries, self.lane.address, keep)
        return spans


def _bare(entry: Entry, lane: LaneId) -> Entry:
    event = entry.event
    if isinstance(event, AssistantMessage) and _is_of(event, lane):
        return entry._replace(event=ModeSwitch())
    return entry


def _summary(last: Entry, event: AssistantMessage, spans: tuple[PositionRange, ...]) -> Entry:
    made = AssistantMessage(
        agent=event.agent, task=event.task, purpose="summary", covers=spans, to=event.to, parts=event.parts
    )
    return Entry(last.conversation, last.position + 1, "as-if", last.time, "", made)
