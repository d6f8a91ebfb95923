"""What is seen in another process, and when: pieces of answers, entries, and a command that stops one."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import aclosing, contextmanager

import stenolog
from benchmarks._ratio import Row, accepted
from stenolog import Log
from stenolog.apps.workers.queues import queue_of
from stenolog.engine import EntryAppended, StreamDelta
from stenolog.events import AssistantMessage, LlmError, UserMessage
from stenolog.workers import cancel, follow
from tests.postgres.server import DURABLE, Server, programs, running

STREAMS = 100
SECONDS = 10.0
CANCELS = 20
SCHEMAS = itertools.count(1)


def run() -> Iterable[Row]:
    bin = programs()
    if bin is None:
        return
    with running(bin, DURABLE) as server:
        for streams in (1, STREAMS):
            late, others, lost = asyncio.run(pieces(address(server), streams))
            burst = f"p99 {at(others, 0.99):.0f} ms while all begin or end at once"
            note = f"p50 {at(late, 0.5):.0f} ms, {len(late)} pieces while all stream; {burst}; {lost} lost"
            row = Row(f"a piece at another process, p99, {streams} streams", at(late, 0.99), 100, "ms", note)
            yield row if streams == 1 else accepted(row, 170)
        for notify, limit in (("on", 50), ("off", 1100)):
            late = asyncio.run(entries(address(server, notify=notify)))
            note = f"p50 {at(late, 0.5):.0f} ms, {STREAMS} followed"
            yield Row(f"an entry at another process, p99, notify={notify}", at(late, 0.99), limit, "ms", note)
        stopped = asyncio.run(cancelled(address(server)))
        note = f"p50 {at(stopped, 0.5):.0f} ms"
        yield Row("from cancel to the entry that says it stopped, most", at(stopped, 1), 500, "ms", note)


def address(server: Server, **options: str) -> str:
    """Return the address of a new log."""
    return server.address(schema=f"live{next(SCHEMAS)}", **options)


def at(milliseconds: list[float], part: float) -> float:
    """Return the quantile of some figures."""
    ordered = sorted(milliseconds)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


@contextmanager
def elsewhere(what: str, address: str, streams: int, seconds: float = SECONDS) -> Iterator[None]:
    """Run the other process until the block ends."""
    command = [sys.executable, "-m", "benchmarks._live_streams", what, address, str(streams), str(seconds)]
    with subprocess.Popen(command) as process:
        try:
            yield
        finally:
            process.wait()


def opened(log: Log, streams: int) -> list[str]:
    """Begin conversations, and return their names."""
    names = [f"talk {number}" for number in range(streams)]
    for name in names:
        log[name].append(UserMessage(text="before", in_context=False))
    return names


async def pieces(address: str, streams: int) -> tuple[list[float], list[float], int]:
    """Return for each piece how late it came, in ms, and the number of those that did not come.

    Those that were said while every answer was under way come first, then the others.
    """
    found: list[list[tuple[float, float]]] = []
    lost = 0

    async def look(log: Log, name: str) -> None:
        nonlocal lost
        mine: list[tuple[float, float]] = []
        found.append(mine)
        async with aclosing(follow(log[name], after=2)) as happening:
            async for happened in happening:
                if isinstance(happened, StreamDelta):
                    now = time.time()
                    mine += [(float(said), (now - float(said)) * 1000) for said in happened.text.split()]
                elif isinstance(answer := happened.entry.event, AssistantMessage):
                    lost += len(answer.text.split()) - len(mine)
                    return

    with stenolog.open(address) as log:
        names = await asyncio.to_thread(opened, log, streams)
        looking = asyncio.gather(*(look(log, name) for name in names))
        with elsewhere("stream", address, streams):
            await looking
    begun, ended = max(mine[0][0] for mine in found), min(mine[-1][0] for mine in found)
    parts: tuple[list[float], list[float]] = [], []
    for said, late in itertools.chain(*found):
        parts[not begun < said < ended].append(late)
    return *parts, lost


async def entries(address: str) -> list[float]:
    """Return for each entry how late it came, in ms."""
    late: list[float] = []

    async def look(log: Log, name: str) -> None:
        async with aclosing(follow(log[name], after=2)) as happening:
            async for happened in happening:
                if isinstance(happened, EntryAppended) and isinstance(happened.entry.event, UserMessage):
                    said = float(happened.entry.event.text)
                    late.append((time.time() - said) * 1000)

    with stenolog.open(address) as log:
        names = await asyncio.to_thread(opened, log, STREAMS)
        looking = [asyncio.create_task(look(log, name)) for name in names]
        await asyncio.sleep(1.0)
        with elsewhere("append", address, STREAMS):
            await asyncio.sleep(SECONDS + 3)
        for task in looking:
            task.cancel()
    return late


async def cancelled(address: str) -> list[float]:
    """Return the ms from each command to stop an answer elsewhere until the entry that says so comes."""
    found: list[float] = []

    async def look(log: Log, name: str) -> None:
        began = 0.0
        async with aclosing(follow(log[name], after=2)) as happening:
            async for happened in happening:
                if isinstance(happened, StreamDelta) and not began:
                    began = time.monotonic()
                    await cancel(log[name])
                elif isinstance(happened, EntryAppended) and isinstance(happened.entry.event, LlmError):
                    found.append((time.monotonic() - began) * 1000)
                    return

    with stenolog.open(address) as log:
        await asyncio.to_thread(queue_of, log)  # makes its tables, once for a log
        names = await asyncio.to_thread(opened, log, CANCELS)
        looking = asyncio.gather(*(look(log, name) for name in names))
        with elsewhere("stream", address, CANCELS):
            await looking
    return found
