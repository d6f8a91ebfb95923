"""Kill points of a run wherever its log is: in a file, or in a schema as by `pytest --log postgresql`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple, TypeAlias

import stenolog
from stenolog import Log, testing
from stenolog.apps.workers.queues import queue_of
from stenolog.testing import CrashPoint

from .in_schemas import address_of, connected, is_chosen

COUNTED = {"stored_events": "entry", "claims": "claim", "drafts": "draft", "blobs": "blob"}
"""The tables whose changes are told, with the word for a row of them."""
TABLES = (*COUNTED, "conversations", "history", "tracking", "processes", "pins")
JOBS = ("procrastinate_workers", "procrastinate_jobs", "procrastinate_events")
"""The tables of the workers' queue, in a schema beside the log's, if a worker has made it."""
# A settled claim's fence must not come again.
NUMBERED = {
    "conversations": "stream",
    "claims": "fence",
    "blobs": "number",
    **dict.fromkeys(JOBS, "id"),
}
"""The tables whose rows are numbered by the server."""
Rows: TypeAlias = Mapping[str, bytes]
"""The rows of each table as the server copies them."""


class Cut(NamedTuple):
    """One instant: its name, the log's rows, and the world's state."""

    when: str
    rows: Rows
    seen: Any


def crash_points(
    run: Callable[[Log], object], folder: Path, *, world: Callable[[], Any] = lambda: None, **options: Any
) -> Iterator[CrashPoint]:
    """Do what `stenolog.testing.crash_points` does, in either store.

    In a schema each point has the same path, so it can be used until the next one is taken.
    """
    if not is_chosen():
        yield from testing.crash_points(run, folder, world=world, **options)
        return
    with stenolog.open(folder / "run.db", **options) as log, _watched(log, folder / "run.db", world) as cuts:
        run(log)
    path = folder / "point.db"
    stenolog.open(path).close()
    for number, cut in enumerate(cuts):
        _write(path, cut.rows)
        yield CrashPoint(number, cut.when, path, cut.seen)


@contextmanager
def _watched(log: Log, path: Path, world: Callable[[], Any]) -> Iterator[list[Cut]]:
    """Collect the instants while the log is written to."""
    store: Any = log.recorder.datastore  # type: ignore[attr-defined]
    cuts: list[Cut] = []
    turn = RLock()  # several threads may write: one at a time, copy and all

    def watched(transaction: Callable[..., Any]) -> Callable[..., Any]:
        def made(*given: Any, **named: Any) -> Any:
            with turn:
                seen = world()
                result = transaction(*given, **named)
                rows = _read(path)
                before = cuts[-1].rows if cuts else None
                if what := _changed(before, rows):
                    if before is not None:
                        cuts.append(Cut(f"before {what}", before, seen))
                    cuts.append(Cut(f"after {what}", rows, world()))
            return result

        return made

    for name in ("write", "repeat", "statement", "once"):
        setattr(store, name, watched(getattr(store, name)))
    yield cuts


def _read(path: Path) -> Rows:
    """Return the rows of a log as of one moment, with those of its queue."""
    with connected(path) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        rows = {}
        for table in (*TABLES, *(JOBS if _has_jobs(connection, path) else ())):
            with connection.cursor().copy(f"COPY {_named(table, path)} TO STDOUT".encode()) as copy:
                rows[table] = b"".join(copy)
        return rows


def _write(path: Path, rows: Rows) -> None:
    """Give a log these rows in place of its own."""
    if JOBS[0] in rows:
        with stenolog.open(path) as log:
            queue_of(log)
    with connected(path) as connection:
        # Its triggers have done their work: what they wrote is among the rows.
        connection.execute("SET LOCAL session_replication_role = replica")
        tables = [*TABLES, *(JOBS if _has_jobs(connection, path) else ())]
        connection.execute("; ".join(f"DELETE FROM {_named(table, path)}" for table in tables).encode())
        for table, said in rows.items():
            with connection.cursor().copy(f"COPY {_named(table, path)} FROM STDIN".encode()) as copy:
                copy.write(said)
        # Whoever was killed at that instant has not renewed its lease since.
        connection.execute("UPDATE processes SET seen = seen - interval '1 day'")
        if JOBS[0] in rows:
            workers = _named(JOBS[0], path)
            connection.execute(
                f"UPDATE {workers} SET last_heartbeat = last_heartbeat - interval '1 day'".encode()
            )
        for table in NUMBERED.keys() & set(tables):
            column, name = NUMBERED[table], _named(table, path)
            connection.execute(
                f"SELECT setval(pg_get_serial_sequence('{name}', '{column}'), "
                f"1000 + coalesce(max({column}), 0)) FROM {name}".encode()
            )


def _named(table: str, path: Path) -> str:
    """Return a table's name within the schema of a path, or within that of its queue."""
    return f"{_schema(path)}_jobs.{table}" if table in JOBS else table


def _schema(path: Path) -> str:
    return address_of(path).rpartition("=")[2]


def _has_jobs(connection: Any, path: Path) -> bool:
    found = connection.execute("SELECT to_regclass(%s)", (_named(JOBS[0], path),)).fetchone()
    return found is not None and found[0] is not None


def _changed(before: Rows | None, now: Rows) -> str:
    """Describe the changes ("entry 5", "claim 1") with the number of rows after them."""
    counts = {table: rows.count(b"\n") for table, rows in now.items()}
    then = {table: rows.count(b"\n") for table, rows in before.items()} if before else {}
    told = (
        f"{what} {counts[table]}" for table, what in COUNTED.items() if counts[table] != then.get(table, 0)
    )
    return ", ".join(told)
