"""Work on a log in one process per processor, with results in order.

Each opens the file itself. A log in memory, and short work, stay in this one.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple, TypeVar

from stenolog.adapters.conversation.log import Log
from stenolog.adapters.conversation.log import open as open_log
from stenolog.adapters.plugins import load_plugin, named_plugins
from stenolog.domain.errors import OperationalError

T = TypeVar("T")
R = TypeVar("R")
AHEAD = 4
"""So many tasks are handed out for each process: none waits for its next one, and few wait in memory."""


class Chunk(NamedTuple):
    """Part of the work on a log: some positions of a conversation."""

    conversation: str
    positions: range


def heads(log: Log, names: Iterable[str]) -> dict[str, int]:
    """Return conversations' last positions; 0 if damaged."""
    found = {name: log[name].position for name in names}
    return {name: last if isinstance(last, int) else 0 for name, last in found.items()}


def shares(heads: Mapping[str, int], size: int, *, split: bool = True) -> Iterator[list[Chunk]]:
    """Yield conversations with last positions, in tasks of about `size` positions.

    Short ones together; a long one in several tasks, unless `split` is false.
    """
    task: list[Chunk] = []
    held = 0
    for name, last in heads.items():
        length = size if split else last + 1
        for first in range(1, max(last, 1) + 1, length):
            share = Chunk(name, range(first, min(first + length, last + 1)))
            if task and held + len(share.positions) > size:
                yield task
                task, held = [], 0
            task.append(share)
            held += len(share.positions)
    if task:
        yield task


def cores() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_in_processes(log: Log, work: Callable[[Log, T], R], tasks: Iterable[T], jobs: int) -> Iterator[R]:
    """Yield the results of `work` on each task, in order, from `jobs` processes.

    With more than one, `work` is a module's function with picklable arguments and results. Raises its errors,
    and `OperationalError` if a process was killed.
    """
    if jobs < 2 or log.recorder.is_private:
        yield from (work(log, task) for task in tasks)
        return
    remaining = iter(tasks)
    with _pool(log, jobs) as pool:

        def handed_out(number: int) -> Iterator[Future[R]]:
            return (pool.submit(_worked, work, task) for task in islice(remaining, number))

        waiting = deque(handed_out(AHEAD * jobs))
        while waiting:
            found = waiting.popleft().result()
            waiting.extend(handed_out(1))
            yield found


@contextmanager
def _pool(log: Log, jobs: int) -> Iterator[ProcessPoolExecutor]:
    fresh = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, fresh, _begin, (log.recorder.address, named_plugins()))
    try:
        yield pool
    except BrokenProcessPool:
        raise OperationalError(
            f"{log.path}: a process that worked on it was ended before it was done"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


_opened: list[Log] = []
"""The log of a process that was started to work on it."""


def _begin(address: str, plugins: Sequence[str]) -> None:
    """Start in a pool's process: Ctrl-C or its parent's end ends it silently."""
    for each in plugins:
        load_plugin(each)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    _opened.append(open_log(address))
    atexit.register(_opened[0].close)


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _worked(work: Callable[[Log, T], R], task: T) -> R:
    return work(_opened[0], task)
