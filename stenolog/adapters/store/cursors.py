"""Following the log: `follow` gives each new entry as it is appended.

A follower's cursor is written in the transaction of what was done, where that is done in the same database
(exactly once), and after it, where it is done outside (at least once). A follower without a cursor begins at
the beginning.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.errors import StoreError

from .recorder import LogRecorder

Unread: TypeAlias = Callable[[int], Iterator[tuple[int, Entry]]]
"""The entries behind a mark, each with the mark to go on from."""


def follow(recorder: LogRecorder, unread: Unread, mark: int, timeout: float | None) -> Iterator[Entry]:
    """Yield the entries behind `mark`, without end.

    It ends when `timeout` seconds pass without a new one (None: never), and when the log is closed.
    """
    woken = threading.Event()
    with recorder.listening(woken.set):
        quiet_until = _from_now(timeout)
        while not recorder.closed:
            # Before reading: an entry that comes after the read wakes us again.
            woken.clear()
            try:
                for last, entry in unread(mark):
                    mark = last
                    yield entry
                    quiet_until = _from_now(timeout)
            except StoreError:
                # The log was closed while we read, which ends the following like any other close.
                if not recorder.closed:
                    raise
            left = quiet_until - time.monotonic()
            # `wait` refuses longer times, and infinity.
            if left <= 0 or not woken.wait(min(left, threading.TIMEOUT_MAX)):
                return


def _from_now(timeout: float | None) -> float:
    return float("inf") if timeout is None else time.monotonic() + timeout
