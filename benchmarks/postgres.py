"""A log in PostgreSQL beside a plain INSERT and the library's recorder: appends, bytes, reads, followers."""

from __future__ import annotations

import asyncio
import itertools
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import psycopg
from eventsourcing.persistence import StoredEvent

import stenolog
from benchmarks import _pgbench
from benchmarks._ratio import Row, accepted, compared
from stenolog import AsyncConversation, UserMessage
from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import LAST, Stream
from stenolog.adapters.store.postgres.recorder import PostgresLogRecorder
from stenolog.adapters.store.sqlite.application import SqliteLogApplication
from tests.postgres.load import opened, said
from tests.postgres.server import DURABLE, Server, programs, running

ROUNDS = 5
SECONDS = 2
WRITERS = 32
SERVER = DURABLE.replace("shared_buffers=16MB", "shared_buffers=128MB")
"""A server with the memory that it has by default, and not as little as those of tests."""
SLOW_COMMITS = f"{SERVER} -c commit_delay=5000 -c commit_siblings=0"
"""Commits of 5 ms, as disks of servers have them."""
WORDS = "word " * 100
NAMES = "INSERT INTO {s}.conversations (name) SELECT name FROM generate_series(1, 32) AS name"
COUNT = "SELECT count(*) FROM {s}.stored_events"
SCHEMAS = itertools.count(1)


def run() -> Iterable[Row]:
    bin = programs()
    if bin is None or not (bin / "pgbench").exists():
        return
    with running(bin, SERVER) as server:
        yield from by_pgbench(server)
        yield from from_python(server)
        yield one_conversation(server)
        yield from stored(server)
        yield reading(server)
        yield following(server)
    with running(bin, SLOW_COMMITS) as server:
        yield from slow_commits(server)


@contextmanager
def log(server: Server, pool: int = 8) -> Iterator[tuple[PostgresLogRecorder, str]]:
    """Yield a new log in a schema of its own, and the schema's name."""
    schema = f"b{next(SCHEMAS)}"
    with opened(server.address(schema=schema, pool=str(pool)), deadline=60) as recorder:
        yield recorder, schema


def rates(server: Server, clients: int, *, stock: bool = True) -> list[tuple[float, float, float]]:
    """Return the appends a second of each round: plain, ours, the library's."""
    found = []
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        library = _pgbench.stock(server)
        for number in range(ROUNDS):
            connection.execute(_pgbench.PLAIN_TABLE)
            with log(server) as (_, schema):
                connection.execute(NAMES.replace("{s}", schema).encode())
                scripts = [_pgbench.plain(), _pgbench.ours(schema), *([library] if stock else [])]
                order = sorted(enumerate(scripts), reverse=bool(number % 2))
                # The plans of 32 sessions are made within the first second.
                seconds = 2 * SECONDS if clients == WRITERS else SECONDS
                each = {which: _pgbench.rate(server, script, clients, seconds) for which, script in order}
                (count,) = connection.execute(COUNT.replace("{s}", schema).encode()).fetchone() or (0,)
                assert count >= each[1] * SECONDS * 0.5, "appends that wrote nothing"
            found.append((each[0], each[1], each.get(2, 0.0)))
    return found


def by_pgbench(server: Server) -> Iterator[Row]:
    for clients, limit in ((1, 2.0), (8, 2.0), (WRITERS, 1 / 0.9)):
        found = rates(server, clients, stock=False)
        ratio = median(plain / ours for plain, ours, _ in found)
        note = ", ".join(f"{ours:.0f} of {plain:.0f}/s" for plain, ours, _ in found)
        row = Row(f"an append by pgbench, {clients} clients, to an INSERT", ratio, limit, note=note)
        yield accepted(row, 1 / 0.7) if clients == WRITERS else row


def slow_commits(server: Server) -> Iterator[Row]:
    found = rates(server, WRITERS)
    ratio = median(plain / ours for plain, ours, _ in found)
    note = ", ".join(f"{ours:.0f} of {plain:.0f}/s" for plain, ours, _ in found)
    yield Row("an append by pgbench, 32 clients, commits of 5 ms, to an INSERT", ratio, 1 / 0.9, note=note)
    ratio = median(stock / ours for _, ours, stock in found)
    note = ", ".join(f"{ours:.0f} and {stock:.0f}/s" for _, ours, stock in found)
    yield Row("an append by pgbench, 32 clients, commits of 5 ms, to the library's", ratio, 0.2, note=note)


def threads(calls: list[Callable[[], object]], seconds: float) -> list[int]:
    """Return how often each call was made by a thread of its own within so many seconds."""
    counts, ends = [0] * len(calls), time.monotonic() + seconds

    def work(number: int) -> None:
        while time.monotonic() < ends:
            calls[number]()
            counts[number] += 1

    working = [threading.Thread(target=work, args=(number,)) for number in range(len(calls))]
    for each in working:
        each.start()
    for each in working:
        each.join()
    return counts


def appending(recorder: LogRecorder, name: str, number: int) -> Callable[[], object]:
    stream, numbers = Stream(name), itertools.count()
    return lambda: recorder.append([said(f"{number}-{next(numbers)}", WORDS)], stream, None)


def from_python(server: Server) -> Iterator[Row]:
    library, datastore = _pgbench.library(server, "library", WRITERS)

    def stocked(number: int) -> Callable[[], object]:
        versions, state = itertools.count(1), WORDS.encode()
        name = f"{next(SCHEMAS)} {number}"
        return lambda: library.insert_events([StoredEvent(name, next(versions), "t@1", state)])

    found = []
    for _ in range(ROUNDS):
        with log(server, pool=WRITERS) as (recorder, _):
            ours = threads([appending(recorder, str(number), number) for number in range(WRITERS)], SECONDS)
            tasks = asyncio.run(by_tasks(server.address(schema=f"b{next(SCHEMAS)}")))
        stock = threads([stocked(number) for number in range(WRITERS)], SECONDS)
        found.append((sum(ours) / SECONDS, tasks, by_hand(server), sum(stock) / SECONDS))
    datastore.close()
    for what, which, other, limit in (
        ("threads, to an INSERT from as many", 0, 2, 1 / 0.4),
        ("tasks, to an INSERT from as many threads", 1, 2, 1 / 0.4),
        ("threads, to the library's", 0, 3, 1 / 3),
    ):
        note = ", ".join(f"{each[which]:.0f} and {each[other]:.0f}/s" for each in found)
        ratio = median(each[other] / each[which] for each in found)
        yield Row(f"an append from Python, {WRITERS} {what}", ratio, limit, note=note)


def by_hand(server: Server) -> float:
    """Return the rows a second that threads insert with the driver alone, each by its own connection."""
    with ExitStack() as held:
        connect = partial(psycopg.connect, server.conninfo, autocommit=True, prepare_threshold=2)
        connections = [held.enter_context(connect()) for _ in range(WRITERS)]
        connections[0].execute(_pgbench.PLAIN_TABLE)

        def inserting(number: int) -> Callable[[], object]:
            positions = itertools.count(1)

            def insert() -> None:
                at, id = time.time_ns() // 1000, os.urandom(8).hex()
                values = (
                    number,
                    next(positions),
                    id,
                    at,
                    "user_message@1",
                    bytes(16),
                    bytes(32),
                    WORDS.encode(),
                )
                connections[number].execute(_pgbench.PLAIN_INSERT, values)

            return insert

        return sum(threads([inserting(number) for number in range(WRITERS)], SECONDS)) / SECONDS


async def by_tasks(address: str) -> float:
    """Return the appends a second of tasks, each to its own conversation."""
    count, ends = 0, time.monotonic() + SECONDS

    async def append(conversation: AsyncConversation) -> None:
        nonlocal count
        while time.monotonic() < ends:
            await conversation.append(UserMessage(text=WORDS))
            count += 1

    async with stenolog.open_async(address) as log:
        await asyncio.gather(*(append(log[str(number)]) for number in range(WRITERS)))
    return count / SECONDS


def one_conversation(server: Server) -> Row:
    found = []
    for _ in range(ROUNDS):
        with log(server) as (one, schema):
            address = server.address(schema=schema)
            with opened(address) as two, opened(address) as three, opened(address) as four:
                recorders = (one, two, three, four)
                calls = [appending(recorders[number % 4], "one", number) for number in range(32)]
                found.append(threads(calls, 2 * SECONDS))
    note = ", ".join(f"{min(each)} to {max(each)}" for each in found)
    ratio = median(max(each) / max(1, min(each)) for each in found)
    return Row("32 writers on one conversation, fastest to slowest", ratio, 1 / 0.7, note=note)


SIZE = """SELECT pg_total_relation_size('{s}.stored_events') + pg_total_relation_size('{s}.conversations')"""
MOVES = """SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
    WHERE schemaname = %s AND relname = 'conversations'"""


def stored(server: Server) -> Iterator[Row]:
    with log(server) as (recorder, schema):
        counts = threads([appending(recorder, str(number), number) for number in range(8)], 3 * SECONDS)
        payloads = sum(
            len(record.payload) for record in recorder.select_records(Stream("0"), 1, LAST)[:100]
        ) / min(100, counts[0])
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            time.sleep(1.5)  # statistics come late
            (size,) = connection.execute(SIZE.replace("{s}", schema).encode()).fetchone() or (0,)
            moved, hot = connection.execute(MOVES, (schema,)).fetchone() or (1, 0)
    note = f"payloads of {payloads:.0f} bytes, {sum(counts)} entries"
    yield Row("bytes of an entry, with indexes", size / sum(counts), 1.3 * payloads + 450, "B", note)
    yield Row("moves of a head that are not HOT", 100 * (moved - hot) / moved, 5, "%", f"{hot} of {moved}")


def reading(server: Server) -> Row:
    count = 5000
    with tempfile.TemporaryDirectory() as folder, log(server) as (ours, _):
        beside = SqliteLogApplication({"SQLITE_DBNAME": str(Path(folder, "talks.db"))})
        for recorder in (ours, beside.recorder):
            for first in range(0, count, 500):
                items = [said(f"{number}", WORDS) for number in range(first, first + 500)]
                recorder.append(items, Stream("talk"), None)
        ours_s, beside_s = compared(lambda: read(ours), lambda: read(beside.recorder), 15)
        beside.close()
    note = f"{ours_s / count * 1e6:.1f} against {beside_s / count * 1e6:.1f} µs a record"
    return Row("reading a conversation, to SQLite", ours_s / beside_s, 2.0, note=note)


def read(recorder: LogRecorder) -> None:
    stream, after = Stream("talk"), 0
    while records := recorder.select_records(stream, after, LAST):
        after = records[-1].position


UNBOUNDED = """SELECT e.notification, e.stream, c.name, e.position, e.entry_id, e.at, e.digest, e.topic,
        e.state
    FROM {s}.stored_events AS e JOIN {s}.conversations AS c ON c.stream = e.stream
    WHERE e.notification > %s ORDER BY e.notification LIMIT 64"""


def following(server: Server) -> Row:
    """Compare a follower's looks with ones that know no bound, while eight threads append."""
    with log(server) as (recorder, _), opened(recorder.address) as beside:
        looks: list[tuple[float, float]] = []
        at = 0

        def look() -> None:
            nonlocal at
            start = time.perf_counter()
            rows = beside.committed(at)
            middle = time.perf_counter()
            beside.datastore.read(lambda c: c.run(UNBOUNDED, (at,)).fetchall())
            looks.append((middle - start, time.perf_counter() - middle))
            at = rows[-1].notification if rows else 0

        calls = [appending(recorder, str(number), number) for number in range(8)]
        threads([*calls, look], 2 * SECONDS)
    ours, floor = (median(each) for each in zip(*looks, strict=True))
    note = f"{ours * 1e3:.1f} against {floor * 1e3:.1f} ms a look of 64"
    return Row("a follower's look beside 8 writers, to one without the bound", ours / floor, 2.0, note=note)
