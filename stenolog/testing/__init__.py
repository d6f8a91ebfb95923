"""For tests: example events, logs with fixed ids, times and digests, and cuts at every instant of a run."""

from .crash_points import CrashPoint, crash_points
from .given import SALT, SHA256, START, entries, example_conversation, examples, records

__all__ = [
    "SALT",
    "SHA256",
    "START",
    "CrashPoint",
    "crash_points",
    "entries",
    "example_conversation",
    "examples",
    "records",
]
