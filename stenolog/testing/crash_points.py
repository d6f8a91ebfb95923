"""Every instant at which a run can be killed, and the log that is left then.

    for point in crash_points(run, tmp_path):
        with stenolog.open(point.path) as log:
            go_on(log)

Each append, claim or draft is one transaction, so the log changes only by these. The world outside may be
ahead: a tool has run, and its result is not in the log. So each log comes twice: with the world as it was
right after one transaction, and right before the next.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from stenolog.adapters.conversation.log import Log
from stenolog.adapters.conversation.log import open as open_log

COUNTS = """SELECT (SELECT count(*) FROM stored_events), (SELECT count(*) FROM claims),
    (SELECT count(*) FROM drafts), (SELECT count(*) FROM blobs)"""
WHAT = ("entry", "claim", "draft", "blob")


class CrashPoint(NamedTuple):
    """One instant of a run.

    `when` names it: "after entry 5", "before claim 2". `path` is the database as it was; tests may write to
    it. `world` is what the caller's `world()` returned then.
    """

    number: int
    when: str
    path: Path
    world: Any = None


def crash_points(
    run: Callable[[Log], object], folder: Path, *, world: Callable[[], Any] = lambda: None, **options: Any
) -> Iterator[CrashPoint]:
    """Run something on a log in `folder`, and yield every instant of the run.

    `run` is called once. `world` is called at every instant for a copy of what is outside the log, such as
    the calls that tools have seen. The `options` are those of `stenolog.open`.
    """
    with open_log(folder / "run.db", **options) as log, _cutting(log, folder, world) as cuts:
        run(log)
    for number, (when, source, seen) in enumerate(cuts):
        path = folder / f"point-{number}.db"
        with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(path)) as other:
            one.backup(other)
        yield CrashPoint(number, when, path, seen)


@contextmanager
def _cutting(log: Log, folder: Path, world: Callable[[], Any]) -> Iterator[list[tuple[str, Path, Any]]]:
    """Collect the instants while the log is written: name, copy of the log, copy of the world."""
    store = log.datastore
    writing, written = store.writing, store.written
    cuts: list[tuple[str, Path, Any]] = []
    turn = Lock()  # several threads may write: one at a time, copy and all

    @contextmanager
    def transaction() -> Iterator[None]:
        with turn:
            before = cuts[-1][1] if cuts else None
            seen = world()
            yield
            copy = folder / f"cut-{len(cuts)}.db"
            log.backup(copy)
            what = _what(copy, before)
            if before is not None:
                cuts.append((f"before {what}", before, seen))
            cuts.append((f"after {what}", copy, world()))

    @contextmanager
    def cut() -> Iterator[sqlite3.Connection]:
        with transaction(), writing() as connection:
            yield connection

    def cut_work(work: Callable[[], Any]) -> Any:
        with transaction():
            return written(work)

    store.writing, store.written = cut, cut_work  # type: ignore[method-assign]
    try:
        yield cuts
    finally:
        del store.writing, store.written


def _what(after: Path, before: Path | None) -> str:
    """Describe a transaction's changes ("entry 5", "claim 1") with the number of rows after it."""
    now, then = _counts(after), _counts(before) if before else (0, 0, 0, 0)
    changed = [f"{what} {count}" for what, count, was in zip(WHAT, now, then, strict=True) if count != was]
    return ", ".join(changed) or "nothing"


def _counts(database: Path) -> tuple[int, ...]:
    with closing(sqlite3.connect(database)) as connection:
        counts: tuple[int, ...] = connection.execute(COUNTS).fetchone()
        return counts
