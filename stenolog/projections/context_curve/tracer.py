"""Tracer of a lane's context: it finds the calls of a lane, and measures the request of each.

One window measures them all and takes each entry once. A tracer can stop on its way, and go on later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.errors import StenologError
from stenolog.projections.formats.base import Format
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.rules import CUTS
from stenolog.projections.messages.sizes import COUNTERS, Counter
from stenolog.projections.requests import LaneId
from stenolog.projections.requests.incremental.series import LaneSeries
from stenolog.projections.requests.incremental.session import TokenMeter

from .samples import Mark, ModelCall, Sample, answered_by, call_of, mark_of

Read = Callable[[int, int], Iterable[Entry]]
"""Returns the entries after a position, up to another one."""
NONE = -1
SLICE = 64
"""In so many entries it is asked once whether it is enough."""


class TracedContext(NamedTuple):
    """State of a tracer to resume from: its samples in columns, for there may be thousands; -1 is None."""

    position: int = 0
    taken: int = 0
    response: str = ""
    api: str = ""
    columns: tuple[list[int], ...] = ()
    failed: dict[int, str] = {}  # noqa: RUF012 - never changed in place
    marks: tuple[Mark, ...] = ()

    @classmethod
    def of(
        cls,
        position: int,
        taken: int,
        response: str,
        api: str,
        samples: Sequence[Sample],
        marks: Sequence[Mark],
    ) -> TracedContext:
        """Return the samples and marks of a tracer that has read up to a position."""
        rows = (sample[:6] for sample in samples)
        columns = tuple(
            [NONE if value is None else value for value in each] for each in zip(*rows, strict=True)
        )
        failed = {at: sample.failed for at, sample in enumerate(samples) if sample.failed}
        return cls(position, taken, response, api, columns, failed, tuple(marks))

    @property
    def samples(self) -> list[Sample]:
        """The samples, in rows."""
        rows = zip(*self.columns, strict=True)
        found = [Sample(*(None if value == NONE else value for value in row)) for row in rows]  # type: ignore[arg-type]
        for at, category in self.failed.items():
            found[at] = found[at]._replace(failed=category)
        return found


class ContextTracer:
    """Traces the requests of one lane; `extend` goes on from `position`, the last entry read (`digest`).

    `is_certain`: each measured request could be rebuilt with all that it needs. `kept_at` is the position of
    the last checkpoint.
    """

    def __init__(
        self,
        lane: LaneId,
        api: str | Format,
        read: Read,
        counters: Mapping[str, Counter] = COUNTERS,
        blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    ) -> None:
        self.lane, self.api, self.counters, self.blobs = lane, api, counters, blobs
        self.position, self.digest = 0, ""
        self.is_certain = True
        self.kept_at = 0
        self._read = read
        self._samples: list[Sample] = []
        self._marks: list[Mark] = []
        self._calls: deque[ModelCall] = deque()
        self._response = ""
        self._taken = self._known = 0
        self._begin()

    def resume(self, kept: TracedContext) -> None:
        """Go on from a checkpoint; the window takes the entries again once there is a call to measure."""
        self.position, self._known, self._response = kept.position, kept.taken, kept.response
        self._samples, self._marks = kept.samples, list(kept.marks)

    def drop_window(self) -> None:
        """Drop the window, which may be large; the next call to measure makes it again."""
        self._known, self._taken = max(self._taken, self._known), 0
        self._begin()

    def _begin(self) -> None:
        self._series = LaneSeries(self.lane, None, lambda at: self._read(0, at), self.counters, self.blobs)
        self._meter: TokenMeter | None = None

    @property
    def traced(self) -> TracedContext:
        """All that is needed to go on from here later."""
        taken = max(self._taken, self._known)
        return TracedContext.of(
            self.position, taken, self._response, self.api_name, self._samples, self._marks
        )

    @property
    def api_name(self) -> str:
        """The name of the API that requests are built for."""
        return self.api if isinstance(self.api, str) else self.api.name

    @property
    def samples(self) -> list[Sample]:
        """The samples; the last ones without tokens if those are not counted yet."""
        waiting = [
            Sample(each.position, each.at, None, *each[2:4], None, each.failed) for each in self._calls
        ]
        return [*self._samples, *waiting]

    @property
    def marks(self) -> list[Mark]:
        """The marks, in the order of their positions."""
        return sorted(self._marks)

    @property
    def waiting(self) -> int:
        """The number of calls whose requests have not been measured yet."""
        return len(self._calls)

    def extend(self, to: int, is_enough: Callable[[], bool] = lambda: False) -> None:
        """Read on up to a position; `is_enough` is asked at intervals whether to stop measuring for now."""
        for entry in self._read(self.position, to):
            self.position, self.digest = entry.position, entry.digest
            if mark := mark_of(entry, self.lane):
                self._marks.append(mark)
            if call := call_of(entry, self.lane, self._response):
                self._calls.append(call)
            self._response = answered_by(entry.event, self.lane, self._response)
        if self._calls:
            self._measure(is_enough)

    def _measure(self, is_enough: Callable[[], bool]) -> None:
        self._calls = deque(sorted(self._calls, key=lambda call: (call.at, call.position)))
        for entry in self._read(self._taken, self._calls[-1].at):
            while self._calls[0].at < entry.position:
                self._samples.append(self._sample(self._calls.popleft()))
            self._take(entry)
            if entry.position % SLICE == 0 and is_enough():
                return
        while self._calls:
            self._samples.append(self._sample(self._calls.popleft()))
        self._samples.sort()

    def _take(self, entry: Entry) -> None:
        window, cuts = self._series.window, self._series.window.cuts
        self._series.take(entry)
        self._taken, now = entry.position, self._series.window
        self.is_certain &= self._series.refused is None
        if now is not window:
            self._meter = None
        elif entry.position > self._known:
            if now.cuts > cuts:
                self._marks.append(Mark(entry.position, "cut", self._cut_words()))
            elif now.cuts < cuts:
                self._take_cut_back()

    def _cut_words(self) -> str:
        last = max((run.last for run in self._series.window.left_out if run.rule in CUTS), default=0)
        return f"the oldest messages left the window, up to {last}"

    def _take_cut_back(self) -> None:
        """Forget the newest cut: a further part of the same response has undone it."""
        cuts = [mark for mark in self._marks if mark.kind == "cut"]
        if cuts:
            self._marks.remove(max(cuts))

    def _sample(self, call: ModelCall) -> Sample:
        tokens = budget = None
        if self._series.refused is None:
            limits = self._series.window.policy.budget
            budget = None if limits is None else limits.tokens
            # The request of one that was made from an earlier position than the one before has gone by.
            self._meter = self._meter or TokenMeter(self._series.window, self.api, self.blobs)
            if self._taken <= call.at:
                with suppress(StenologError):
                    tokens = self._meter.tokens()
            self.is_certain &= tokens is not None and not self._meter.is_missing
        return Sample(call.position, call.at, tokens, call.billed, call.cached, budget, call.failed)
