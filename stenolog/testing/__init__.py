"""For tests: example events, logs with fixed ids, times and digests, and cuts at every instant of a run."""

from .given import SALT, SHA256, START, entries, examples, records, story
from .kill_points import KillPoint, kill_points

__all__ = [
    "SALT",
    "SHA256",
    "START",
    "KillPoint",
    "entries",
    "examples",
    "kill_points",
    "records",
    "story",
]
