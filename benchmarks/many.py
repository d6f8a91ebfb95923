"""A log of 100,000 conversations against one of 1,000: a page of them, one that is opened, and filters."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from itertools import cycle
from pathlib import Path

import click

from benchmarks._ratio import Row, compared
from benchmarks.read import conversation
from stenolog import Log, UserMessage
from stenolog.adapters.conversation import log as logs
from stenolog.adapters.store.contract import appends
from stenolog.adapters.store.contract.values import START, PendingEntry
from stenolog.adapters.store.sqlite.statements import event_rows
from stenolog.apps.cli import run as cli
from stenolog.apps.cli.app import app
from stenolog.apps.cli.arguments import options
from stenolog.domain.codec import REGISTRY
from stenolog.domain.events import ModeSwitch

FEW, MANY = 1_000, 100_000
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


def against(name: str, work: Callable[[Log], object], small: Log, large: Log, limit: float) -> Row:
    many_s, few_s = compared(lambda: work(large), lambda: work(small), rounds=41)
    note = f"{many_s * 1e3:.2f} against {few_s * 1e3:.2f} ms"
    return Row(f"{name}, of {MANY:,} conversations against {FEW:,}", many_s / few_s, limit, note=note)


def listed(log: Log) -> None:
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        assert cli(["ls", "--db", log.path]) == 0


def completed(log: Log) -> object:
    context = click.Context(app, info_name="stenolog")
    context.params["db"] = log.path
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
            yield Row(f"{name}, of {MANY:,}, against all of them by hand", ours_s / floor_s, limit, note=note)


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
