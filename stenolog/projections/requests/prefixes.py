"""Is every request that this log could ever have led to one that its provider takes?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from stenolog.domain.entry import Entry

from .build import lanes, takes_part, windows
from .laws import LAWS, Breach, reading
from .live import Live
from .tokens import COUNTERS, Counter
from .visible import Lane
from .window import Window
from .wires.sheet import EMPTY_BLOBS


class Checked(NamedTuple):
    """A request, by its position, lane and wire, and each place where it breaks a law."""

    position: int
    lane: str
    wire: str
    breaches: tuple[Breach, ...]


def checked(
    entries: Iterable[Entry],
    *,
    wires: Sequence[str] = tuple(LAWS),
    all_prefixes: bool = False,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Iterator[Checked]:
    """The requests of every lane at the end of the log, or after each of its entries. Raises as `build`."""
    log = list(entries)
    last = range(len(log), len(log) + 1)
    for lane in lanes(log):
        positions = range(1, len(log) + 1) if all_prefixes else last
        yield from checked_lane(log, lane, positions, wires=wires, blobs=blobs, counters=counters)


def checked_lane(
    log: Sequence[Entry],
    lane: Lane,
    positions: range,
    *,
    wires: Sequence[str] = tuple(LAWS),
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Iterator[Checked]:
    """The requests of a lane at positions that follow each other. Raises as `build`."""
    checks: list[_Check] = []
    for window in windows(log, lane, None, counters, blobs):
        if window.position < positions.start or not takes_part(window):
            continue
        if window.position >= positions.stop:
            return
        if not checks or checks[0].live.window is not window:
            checks = [_Check(window, wire, blobs) for wire in wires]
        yield from (check.now() for check in checks)


def invalid_requests(
    entries: Iterable[Entry],
    *,
    wires: Sequence[str] = tuple(LAWS),
    all_prefixes: bool = False,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Iterator[Checked]:
    """Those of `checked` that break a law."""
    found = checked(entries, wires=wires, all_prefixes=all_prefixes, blobs=blobs, counters=counters)
    return (one for one in found if one.breaches)


class _Check:
    """The requests of a window on a wire, one after another, before its laws."""

    def __init__(self, window: Window, wire: str, blobs: Mapping[str, bytes]) -> None:
        self.live = Live(window, wire, blobs)
        self.reading = reading(wire)

    def now(self) -> Checked:
        """The request of what is in the window now."""
        window, broken = self.live.window, self.reading.breaches(self.live.request().body)
        return Checked(window.position, window.lane.address, self.live.wire.name, tuple(broken))
