"""64 conversations that are appended to at once, against one commit after another.

The floor is one thread that goes round the same conversations, with a commit for each append and nobody in
its way: the most there is without group commit. The note tells what 64 threads reach with a commit each.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from threading import Barrier
from time import perf_counter

import stenolog
from benchmarks._ratio import Row
from stenolog import Log, UserMessage
from stenolog.adapters.asynchronous import AsyncConversation
from stenolog.adapters.stores.grouping import Group, Job, Part, T

WRITERS = 64
EACH = 20
ROUNDS = 15
LIMIT = 1 / 4
MESSAGE = UserMessage(text="Which test fails, and since which commit? " * 7)


class Alone(Group):
    """No group: each job waits for its turn, and has a commit of its own."""

    def write(self, job: Job[T]) -> T:
        with self._store.writing() as connection:
            return job(Part(connection, alone=True))


def run() -> Iterable[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "talks.db")
        with stenolog.open(path) as log, stenolog.open(path) as other:
            other.datastore.group = Alone(other.datastore)
            one_after_another(log)  # it opens the conversations
            taken = [
                (one_after_another(log), in_threads(log), in_tasks(path), in_threads(other))
                for _ in range(ROUNDS)
            ]
    one, threads, tasks, each = (median(column) * 1e6 for column in zip(*taken, strict=True))
    what = f"{WRITERS} conversations at once, an append against one with a commit of its own"
    note = f"{threads:.0f} against {one:.0f} µs; threads with a commit each: {each:.0f} µs"
    yield Row(f"{what}: threads", threads / one, LIMIT, note=note)
    yield Row(f"{what}: asyncio", tasks / one, LIMIT, note=f"{tasks:.0f} against {one:.0f} µs")


def one_after_another(log: Log) -> float:
    """Seconds an append, by one thread."""
    talks = [log[str(number)] for number in range(WRITERS)]
    start = perf_counter()
    for _ in range(EACH):
        for talk in talks:
            talk.append(MESSAGE)
    return (perf_counter() - start) / (WRITERS * EACH)


def in_threads(log: Log) -> float:
    """The same, by a thread for each conversation."""
    begun = Barrier(WRITERS + 1)

    def work(name: str) -> None:
        talk = log[name]
        begun.wait()
        for _ in range(EACH):
            talk.append(MESSAGE)

    with ThreadPoolExecutor(WRITERS) as pool:
        working = [pool.submit(work, str(number)) for number in range(WRITERS)]
        begun.wait()
        start = perf_counter()
        for each in working:
            each.result()
        return (perf_counter() - start) / (WRITERS * EACH)


def in_tasks(path: Path) -> float:
    """The same, by a task for each conversation."""

    async def work(talk: AsyncConversation) -> None:
        for _ in range(EACH):
            await talk.append(MESSAGE)

    async def measured() -> float:
        async with stenolog.open_async(path) as log:
            talks = [log[str(number)] for number in range(WRITERS)]
            start = perf_counter()
            await asyncio.gather(*map(work, talks))
            return (perf_counter() - start) / (WRITERS * EACH)

    return asyncio.run(measured())
