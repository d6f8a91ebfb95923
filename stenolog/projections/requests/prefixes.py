"""Is every request that this log could ever have led to one that its provider takes?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from stenolog.domain.entry import Entry

from .build import from_window, lanes, takes_part, windows
from .laws import LAWS, Breach, breaches
from .tokens import COUNTERS, Counter
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
    for lane in lanes(log):
        last = None
        for last in windows(log, lane, None, counters, blobs):
            if all_prefixes:
                yield from _check(last, wires, blobs)
        if last is not None and not all_prefixes:
            yield from _check(last, wires, blobs)


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


def _check(window: Window, wires: Sequence[str], blobs: Mapping[str, bytes]) -> Iterator[Checked]:
    for wire in wires if takes_part(window) else ():
        broken = breaches(wire, from_window(window, wire, blobs).body)
        yield Checked(window.position, window.lane.address, wire, tuple(broken))
