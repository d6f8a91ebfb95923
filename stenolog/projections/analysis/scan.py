"""One pass over a log for a lane, in which only the requests that are wanted are built."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from stenolog.domain.entry import Entry
from stenolog.domain.policy import PolicyLike
from stenolog.projections.requests import LaneId, Request
from stenolog.projections.requests.builder import from_window, takes_part, windows
from stenolog.projections.requests.incremental.window import Window
from stenolog.projections.requests.tokens import Counter


def some_requests(
    log: Sequence[Entry],
    lane: LaneId,
    wanted: Callable[[Window], bool],
    *,
    api: str,
    policy: PolicyLike,
    blobs: Mapping[str, bytes],
    counters: Mapping[str, Counter],
) -> Iterator[Request]:
    """The lane's request at each position where its window is wanted. Raises as `build`."""
    for window in windows(log, lane, policy, counters, blobs):
        if takes_part(window) and wanted(window):
            yield from_window(window, api, blobs)


def may_send(window: Window) -> bool:
    """Return whether the lane has something to answer there, so that its request may be sendable."""
    address, state = window.lane.address, window.state
    lane = state.lane(address)
    return lane.status in ("awaiting_llm", "failed") or (address not in state.lanes and lane.asked > 0)
