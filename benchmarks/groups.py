"""64 conversations that are appended to at once: commits that are shared, against one for each append.

The floor is the same 64 threads, or tasks, on the same code with grouping switched off. The notes tell as
well what one thread reaches that goes round the conversations with a commit for each append.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from threading import Barrier
from time import perf_counter
from typing import Any

import stenolog
from benchmarks._ratio import Row, accepted
from stenolog import Log, UserMessage
from stenolog.adapters.conversation.aio import AsyncConversation
from stenolog.adapters.store.sqlite.turn.group_commit import GroupCommit, PendingJob

WRITERS = 64
EACH = 50
ROUNDS = 9
LIMIT = 1 / 4
MESSAGE = UserMessage(text="Which test fails, and since which commit? " * 7)


class Alone(GroupCommit):
    """No group: each job has a commit of its own."""

    def _gathering(self, taken: list[PendingJob[Any]]) -> Iterator[PendingJob[Any]]:
        return iter(taken)


def run() -> Iterable[Row]:
    with (
        tempfile.TemporaryDirectory() as folder,
        stenolog.open(Path(folder, "talks.db")) as log,
        stenolog.open(Path(folder, "alone.db")) as other,
    ):
        other.datastore.group = Alone(other.datastore)
        one_after_another(log)  # it opens the conversations
        one_after_another(other)
        ways: tuple[Callable[[], float], ...] = (
            lambda: one_after_another(log),
            lambda: in_threads(log),
            lambda: in_threads(other),
            lambda: in_tasks(Path(folder, "tasks.db"), GroupCommit),
            lambda: in_tasks(Path(folder, "tasks alone.db"), Alone),
        )
        taken = [[way() * 1e6 for way in ways] for _ in range(ROUNDS)]
    one, *rest = (median(column) for column in zip(*taken, strict=True))
    for what, together, each in (("threads", *rest[:2]), ("tasks of asyncio", *rest[2:])):
        note = f"{together:.0f} against {each:.0f} µs; one thread in turns: {one:.0f} µs"
        row = Row(
            f"{WRITERS} {what}: an append, against a commit for each", together / each, LIMIT, note=note
        )
        yield accepted(row, 0.42) if what == "threads" else row


def one_after_another(log: Log) -> float:
    """Return seconds an append, by one thread."""
    talks = [log[str(number)] for number in range(WRITERS)]
    start = perf_counter()
    for _ in range(EACH):
        for talk in talks:
            talk.append(MESSAGE)
    return (perf_counter() - start) / (WRITERS * EACH)


def in_threads(log: Log) -> float:
    """Return the same, by a thread for each conversation."""
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


def in_tasks(path: Path, group: type[GroupCommit]) -> float:
    """Return the same, by a task for each conversation."""

    async def work(talk: AsyncConversation) -> None:
        for _ in range(EACH):
            await talk.append(MESSAGE)

    async def measured() -> float:
        async with stenolog.open_async(path) as log:
            log.sync.datastore.group = group(log.sync.datastore)
            talks = [log[str(number)] for number in range(WRITERS)]
            start = perf_counter()
            await asyncio.gather(*map(work, talks))
            return (perf_counter() - start) / (WRITERS * EACH)

    return asyncio.run(measured())
