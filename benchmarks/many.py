"""A log of 100,000 conversations against one of 1,000, in a file and on a server; 10,000 held open."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from itertools import cycle
from pathlib import Path

import click
import psycopg

from benchmarks._ratio import Row, accepted, compared
from benchmarks.read import conversation
from stenolog import Log, UserMessage
from stenolog.adapters.conversation import log as logs
from stenolog.adapters.store.contract import appends
from stenolog.adapters.store.contract.values import START, PendingEntry
from stenolog.adapters.store.postgres.recorder import PostgresLogRecorder
from stenolog.adapters.store.sqlite.statements import event_rows
from stenolog.apps.cli import run as cli
from stenolog.apps.cli.app import app
from stenolog.apps.cli.arguments import options
from stenolog.domain.codec import REGISTRY
from stenolog.domain.events import ModeSwitch
from tests.postgres.server import DURABLE, Server, programs, running

FEW, MANY = 1_000, 100_000
HELD = 10_000
CONTEXT = multiprocessing.get_context("spawn")
ENTRIES = 6
EPOCH_US, APART_US = 1_750_000_000_000_000, 360_000_000
LATE = datetime.fromtimestamp((EPOCH_US + APART_US * (MANY - 40)) / 1e6, UTC)
"""All but the last forty have been quiet since."""
NEW = "INSERT INTO conversations (stream, name) VALUES (?, ?)"
LAST_AT = """SELECT name FROM conversations JOIN
    (SELECT originator_id, max(originator_version), at FROM stored_events GROUP BY originator_id) e
    ON e.originator_id = stream WHERE at >= ?"""


def run() -> Iterable[Row]:
    with tempfile.TemporaryDirectory() as folder:
        few, many = Path(folder, "few.db"), Path(folder, "many.db")
        filled(few, FEW)
        filled(many, MANY)
        with logs.open(few, synchronous="normal") as small, logs.open(many, synchronous="normal") as large:
            yield against("a page of `ls`", listed, small, large, 2.0)
            yield against("a name completed", completed, small, large, 1.5)
            yield against("the newest 50 names", newest, small, large, 1.5)
            yield against("one looked for by its name", named(), small, large, 1.2)
            yield against("one opened by its name: its state", opened(), small, large, 1.2)
            yield against("one opened by its name: an append", appended(), small, large, 1.2)
            yield from filters(large)
        yield held_open("a file", str(many))
    if (bin := programs()) is not None:
        with running(bin, DURABLE) as server:
            yield from on_postgres(server)


def on_postgres(server: Server) -> Iterator[Row]:
    few, many = (server.address(schema=f"of{number}") for number in (FEW, MANY))
    filled_on(server, few, FEW)
    filled_on(server, many, MANY)
    with logs.open(few) as small, logs.open(many) as large:
        yield against("PostgreSQL: a page of `ls`", listed, small, large, 2.0)
        yield against("PostgreSQL: the newest 50 names", newest, small, large, 1.5)
        yield against("PostgreSQL: one looked for by its name", named(), small, large, 1.5)
        yield against("PostgreSQL: one opened by its name: its state", opened(), small, large, 1.5)
        yield against("PostgreSQL: one opened by its name: an append", appended(), small, large, 1.5)
        yield against("PostgreSQL: a search for what was just appended", searched(), small, large, 1.5)
    yield held_open("PostgreSQL", many)


def held_open(where: str, address: str) -> Row:
    """Measure how much a process grows that appends to many conversations and holds them."""
    with CONTEXT.Pool(1) as pool:
        grown = pool.apply(holding, (address,))
    return Row(f"{HELD:,} conversations held open by one process, {where}", grown, 200, "MB")


def holding(address: str) -> float:
    with logs.open(address) as log:
        log[name_of(1)].append(UserMessage(text="Go on."))
        before = resident_mb()
        held = [log[name_of(number)] for number in range(1, HELD + 1)]
        for conversation in held:
            conversation.append(UserMessage(text="Go on."))
        return resident_mb() - before


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def against(name: str, work: Callable[[Log], object], small: Log, large: Log, limit: float) -> Row:
    many_s, few_s = compared(lambda: work(large), lambda: work(small), rounds=41)
    note = f"{many_s * 1e3:.2f} against {few_s * 1e3:.2f} ms"
    return Row(f"{name}, of {MANY:,} conversations against {FEW:,}", many_s / few_s, limit, note=note)


def listed(log: Log) -> None:
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        assert cli(["ls", "--db", log.recorder.address]) == 0


def completed(log: Log) -> object:
    context = click.Context(app, info_name="stenolog")
    context.params["db"] = Path(log.path)
    return options.names(context, click.Argument(["conversation"]), "talk 0005")


def newest(log: Log) -> object:
    return log.names(limit=50, order="newest")


def named() -> Callable[[Log], object]:
    names = cycle([name_of(number) for number in range(1, FEW, 7)])
    return lambda log: [next(names) in log for _ in range(100)]


def opened() -> Callable[[Log], object]:
    names = cycle([name_of(number) for number in range(1, FEW, 7)])
    return lambda log: [log[next(names)].state() for _ in range(10)]


def appended() -> Callable[[Log], object]:
    """Return an append to unopened conversations, ten at a time, in either log the same ones."""
    names = cycle([name_of(number) for number in range(1, FEW + 1)])
    return lambda log: [log[next(names)].append(UserMessage(text="Go on.")) for _ in range(10)]


def searched() -> Callable[[Log], object]:
    names = cycle([name_of(number) for number in range(1, FEW, 7)])

    def search(log: Log) -> object:
        log[next(names)].append(UserMessage(text="A zebra."))
        return list(log.search("zebra", limit=1))

    return search


def filters(log: Log) -> Iterator[Row]:
    """Yield the filters that look at every conversation, against the same by hand."""
    with closing(sqlite3.connect(log.path)) as connection:

        def by_hand(statement: str, *values: object) -> list[str]:
            return [name for (name,) in connection.execute(statement, values)]

        def held() -> object:
            return [name for name in by_hand("SELECT name FROM conversations") if "99999" in name]

        late = int(LATE.timestamp() * 1e6)
        rows: tuple[tuple[str, Callable[[], object], Callable[[], object], float], ...] = (
            (
                "how many there are",
                lambda: len(log),
                lambda: len(by_hand("SELECT name FROM conversations")),
                0.5,
            ),
            ("those whose names hold a word", lambda: log.names(contains="99999"), held, 1.0),
            (
                "those appended to since",
                lambda: log.names(active_since=LATE),
                lambda: by_hand(LAST_AT, late),
                1.0,
            ),
        )
        for name, ours, floor, limit in rows:
            ours_s, floor_s = compared(ours, floor, rounds=7)
            note = f"{ours_s * 1e3:.1f} against {floor_s * 1e3:.1f} ms"
            row = Row(f"{name}, of {MANY:,}, against all of them by hand", ours_s / floor_s, limit, note=note)
            yield accepted(row, 1.2) if "since" in name else row


def name_of(number: int) -> str:
    return f"talk {number:06d}"


def filled(path: Path, conversations: int) -> None:
    """Write a log of so many conversations, each of six entries, six minutes apart, without the library."""
    logs.open(path).close()
    payloads = [REGISTRY.dump(event) for event in [ModeSwitch(mode="chat"), *conversation(ENTRIES - 1)]]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        for stream in range(1, conversations + 1):
            at = EPOCH_US + stream * APART_US
            items = [
                PendingEntry(topic, payload, f"e{nth}", at, bytes(16))
                for nth, (topic, payload) in enumerate(payloads)
            ]
            connection.execute(NEW, (stream, name_of(stream)))
            event_rows.insert(connection, stream, appends.make_records(START, items))


COPIES = """INSERT INTO {s}.conversations (name, head, digest, last_at)
    SELECT %s || lpad(n::text, 6, '0'), head, digest, %s::bigint + n * %s::bigint::bigint
    FROM {s}.conversations, generate_series(2, %s) AS n ORDER BY n"""
ENTRIES_OF = """INSERT INTO {s}.stored_events
    SELECT (SELECT base FROM {s}.meta) + (pg_current_xact_id()::text::bigint << 22) + row_number() OVER (),
        c.stream, position, entry_id, at, topic, salt, e.digest, size, erased, state
    FROM {s}.stored_events AS e, {s}.conversations AS c WHERE c.stream > e.stream"""


def filled_on(server: Server, address: str, conversations: int) -> None:
    """Write a log of so many copies of one conversation, without a history."""
    with logs.open(address) as log:
        log[name_of(1)].extend(conversation(ENTRIES - 1))
        recorder = log.recorder
    assert isinstance(recorder, PostgresLogRecorder)
    schema = recorder.datastore.address.schema.encode()
    with psycopg.connect(server.conninfo) as connection:
        connection.execute(
            COPIES.encode().replace(b"{s}", schema), ("talk ", EPOCH_US, APART_US, conversations)
        )
        connection.execute(ENTRIES_OF.encode().replace(b"{s}", schema))
        connection.commit()
        connection.autocommit = True
        connection.execute("VACUUM ANALYZE")
