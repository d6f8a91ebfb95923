"""Is every request that this log could ever have led to one that its provider takes?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from stenolog.domain.entry import Entry

from .build import from_window, lanes, takes_part, windows
from .laws import LAWS, Breach, breaches
from .window import Window
from .wires.sheet import EMPTY_BLOBS


class Invalid(NamedTuple):
    """A request that breaks a law: at which position, for which lane, on which wire."""

    position: int
    lane: str
    wire: str
    breach: Breach


def invalid_requests(
    entries: Iterable[Entry],
    *,
    wires: Sequence[str] = tuple(LAWS),
    all_prefixes: bool = False,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
) -> Iterator[Invalid]:
    """Every breach in the requests of every lane at the end of the log, or after each of its entries."""
    log = list(entries)
    for lane in lanes(log):
        last = None
        for last in windows(log, lane, None):
            if all_prefixes:
                yield from _check(last, wires, blobs)
        if last is not None and not all_prefixes:
            yield from _check(last, wires, blobs)


def _check(window: Window, wires: Sequence[str], blobs: Mapping[str, bytes]) -> Iterator[Invalid]:
    for wire in wires if takes_part(window) else ():
        for breach in breaches(wire, from_window(window, wire, blobs).body):
            yield Invalid(window.position, window.lane.address, wire, breach)
