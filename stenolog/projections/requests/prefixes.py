"""Is every request that this log could ever have led to one that its provider takes?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from stenolog.domain.entry import Entry

from .build import build, lanes
from .laws import LAWS, Breach, breaches
from .visible import Lane
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
    first_seen: dict[Lane, int] = {}
    for entry in log:
        for lane in lanes([entry]):
            first_seen.setdefault(lane, entry.position)
    for length in range(1 if all_prefixes else len(log), len(log) + 1):
        for lane, since in first_seen.items():
            if length and since <= log[length - 1].position:
                yield from _check(log[:length], lane, wires, blobs)


def _check(
    prefix: Sequence[Entry], lane: Lane, wires: Sequence[str], blobs: Mapping[str, bytes]
) -> Iterator[Invalid]:
    for wire in wires:
        request = build(prefix, lane.agent, task=lane.task, wire=wire, blobs=blobs)
        for breach in breaches(wire, request.body):
            yield Invalid(prefix[-1].position, lane.address, wire, breach)
