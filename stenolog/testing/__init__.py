"""For tests: example events, logs with fixed ids, times and digests, crash points, and exported moments."""

from .crash_points import CrashPoint, crash_points
from .given import SALT, SHA256, START, entries, example_conversation, examples, records
from .moments import check_moment

__all__ = [
    "SALT",
    "SHA256",
    "START",
    "CrashPoint",
    "check_moment",
    "crash_points",
    "entries",
    "example_conversation",
    "examples",
    "records",
]
