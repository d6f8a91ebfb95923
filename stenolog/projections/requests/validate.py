"""Is every request that this log could ever have led to one that its provider takes?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from stenolog.domain.entry import Entry

from .builder import lanes, takes_part, windows
from .incremental.session import RequestSession
from .incremental.window import Window
from .pipeline.lane import LaneId
from .request import EMPTY_BLOBS
from .tokens import COUNTERS, Counter
from .validation import LAWS, Violation, reading


class Checked(NamedTuple):
    """A request, by its position, lane and API, and each place where it breaks a law."""

    position: int
    lane: str
    api: str
    breaches: tuple[Violation, ...]


def checked(
    entries: Iterable[Entry],
    *,
    apis: Sequence[str] | None = None,
    all_prefixes: bool = False,
    within: range | None = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Iterator[Checked]:
    """The requests of every lane at the end of the log, or after each of its entries. Raises as `build`.

    `apis` are the names of APIs, every registered one where it is None. With `within`, only requests at
    positions in that range.
    """
    log = list(entries)
    end = log[-1].position if log else 0
    positions = within or range(1 if all_prefixes else end, end + 1)
    for lane in lanes(log):
        checks: list[_Check] = []
        for window in _windows(log, lane, positions, blobs, counters):
            if not checks or checks[0].live.window is not window:
                checks = [_Check(window, api, blobs) for api in (LAWS if apis is None else apis)]
            yield from (check.judged() for check in checks)


def _windows(
    log: Sequence[Entry],
    lane: LaneId,
    positions: range,
    blobs: Mapping[str, bytes],
    counters: Mapping[str, Counter],
) -> Iterator[Window]:
    """The windows of a lane at positions that follow each other, where it takes part."""
    for window in windows(log, lane, None, counters, blobs):
        if window.position >= positions.stop:
            return
        if window.position >= positions.start and takes_part(window):
            yield window


def invalid_requests(
    entries: Iterable[Entry],
    *,
    apis: Sequence[str] | None = None,
    all_prefixes: bool = False,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Iterator[Checked]:
    """Those of `checked` that break a law."""
    found = checked(entries, apis=apis, all_prefixes=all_prefixes, blobs=blobs, counters=counters)
    return (one for one in found if one.breaches)


class _Check:
    """The requests of a window on an API, one after another, before its laws."""

    def __init__(self, window: Window, api: str, blobs: Mapping[str, bytes]) -> None:
        self.live = RequestSession(window, api, blobs)
        self.reading = reading(api)

    def judged(self) -> Checked:
        """The request of what is in the window now."""
        window, broken = self.live.window, self.reading.breaches(self.live.request().body)
        return Checked(window.position, window.lane.address, self.live.api.name, tuple(broken))
