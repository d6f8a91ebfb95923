"""Snapshots of a lane's window at many past positions, in memory: any of them is a few entries away.

The checkpoints beside the log are thousands of entries apart, so that their file stays small. A slider that
is dragged through a conversation asks for a request at one position after another, within milliseconds.
"""

from __future__ import annotations

from bisect import bisect_right
from threading import Lock
from typing import NamedTuple

from stenolog.projections.requests.incremental.window import WindowSnapshot

SPACING = 16
"""The entries between two snapshots, at first."""
MOST = 4096
"""The snapshots of a ladder; one more, and every second one goes."""


class Rung(NamedTuple):
    """A snapshot, with the digest of the entry that it stands at."""

    position: int
    digest: str
    snapshot: WindowSnapshot


class SnapshotLadder:
    """The snapshots of a lane's window under a policy, by position; safe to share between threads."""

    def __init__(self) -> None:
        self._rungs: list[Rung] = []
        self._spacing = SPACING
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._rungs)

    def wants(self, position: int) -> bool:
        """Return whether a snapshot at that position is of use."""
        return position % self._spacing == 0

    def add(self, rung: Rung) -> None:
        """Keep a snapshot, in the place of another one at its position."""
        with self._lock:
            place = bisect_right(self._rungs, rung.position, key=_position)
            if place and self._rungs[place - 1].position == rung.position:
                self._rungs[place - 1] = rung
            else:
                self._rungs.insert(place, rung)
            if len(self._rungs) > MOST:
                self._spacing *= 2
                self._rungs = [each for each in self._rungs if self.wants(each.position)]

    def nearest(self, at: int) -> Rung | None:
        """Return the last snapshot at or before a position."""
        with self._lock:
            place = bisect_right(self._rungs, at, key=_position)
            return self._rungs[place - 1] if place else None

    def clear(self) -> None:
        """Forget all of them: they are of another log."""
        with self._lock:
            self._rungs.clear()


def _position(rung: Rung) -> int:
    return rung.position
