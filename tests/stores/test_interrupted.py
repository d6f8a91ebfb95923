"""Ctrl-C at every instant at which it may come: whoever is interrupted keeps nothing from the others.

Python runs the handler of a signal as a function begins, and behind each call of one written in C. These are
the instants at which a profiler is called, too: so one that raises finds them all, one by one.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from inspect import CO_GENERATOR
from pathlib import Path
from types import FrameType

import pytest

import stenolog
from stenolog import Log, UserMessage
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.store.reading import reader
from stenolog.adapters.store.sqlite import file_locks
from stenolog.adapters.store.sqlite.file_locks import FileLock
from stenolog.adapters.store.sqlite.turn.datastore import SqliteLogDatastore
from tests.stores.conftest import said, texts
from tests.stores.workers import PATIENCE

PLACES = (str(Path(file_locks.__file__).parents[1]), contextlib.__file__)


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Collect the garbage here, and not in the midst of another test."""
    yield
    gc.collect()


def done(work: Callable[[], object], instant: int) -> bool:
    """Do the work, and interrupt it at that instant; True where it has not so many."""
    instants = itertools.count()

    def profiler(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        begins = event == "call" and not code.co_flags & CO_GENERATOR  # one may be called to be thrown into
        comes = (begins or event == "c_return") and code.co_filename.startswith(PLACES)
        if comes and next(instants) == instant:
            sys.setprofile(None)
            raise KeyboardInterrupt

    gc.disable()  # what closes itself as it is collected must not be interrupted in that
    sys.setprofile(profiler)
    try:
        work()
    except KeyboardInterrupt:
        return False
    finally:
        sys.setprofile(None)
        gc.enable()
    return True


def free(log: Log) -> bool:
    """Return whether another writer may write now, in this process or another."""
    if log.datastore.is_writing or log.datastore.writer.in_transaction:
        return False
    lock = FileLock(f"{log.datastore.file}-lock")
    try:
        return log.datastore.in_memory or lock.acquire(0)
    finally:
        lock.close()


def opening(path: str, opened: list[SqliteLogDatastore]) -> None:
    opened.append(SqliteLogDatastore(path, synchronous="normal"))


def append(log: Log) -> None:
    log["demo"].append(UserMessage(text="hi"))


def write(log: Log) -> None:
    with log.datastore.writing() as connection:
        connection.execute("UPDATE conversations SET archived_at = NULL")


def undo(log: Log) -> None:
    with contextlib.suppress(LookupError), log.datastore.writing() as connection:
        connection.execute("UPDATE conversations SET name = 'other'")
        raise LookupError


def read(log: Log) -> None:
    with log.datastore.reading() as connection:
        connection.execute("SELECT * FROM conversations").fetchall()


def look(log: Log) -> None:
    stream = log["demo"].stream
    reader.peek(log.recorder, stream, 1, "")


@pytest.mark.parametrize("where", ["talks.db", ":memory:"])
@pytest.mark.parametrize("work", [append, write, undo, read, look])
def test_whoever_is_interrupted_keeps_nobody_from_writing(
    tmp_path: Path, where: str, work: Callable[[Log], None]
) -> None:
    place = where if where == ":memory:" else tmp_path / where
    with stenolog.open(place, synchronous="normal", deadline=0.1) as log:
        said(log["demo"], "a")
        for instant in itertools.count():
            if done(lambda: work(log), instant):
                break
            assert free(log), f"kept at instant {instant}"

        assert instant > 3
        assert texts(log["demo"])[0] == "a"
        assert verify(log).ok


def test_whoever_is_interrupted_as_he_opens_a_log_keeps_nobody_from_opening_it(tmp_path: Path) -> None:
    opened: list[SqliteLogDatastore] = []
    for instant in itertools.count():
        path = str(tmp_path / f"{instant}.db")
        if done(partial(opening, path, opened), instant):
            break
        other = FileLock(f"{path}-lock")
        assert other.acquire(0), f"kept at instant {instant}"
        other.close()

    assert instant > 9
    opened[0].close()


def test_whoever_is_interrupted_as_he_takes_a_lock_has_not_got_it(tmp_path: Path) -> None:
    one, other = (FileLock(str(tmp_path / "lock")) for _ in range(2))
    for instant in itertools.count():
        if done(lambda: one.acquire(0), instant):
            break
        assert other.acquire(0), f"kept at instant {instant}"
        other.release()

    assert instant > 1
    one.close()
    other.close()


def test_nobody_waits_for_a_lock_that_came_to_somebody_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other, third = (FileLock(str(tmp_path / "lock")) for _ in range(3))

    class Released(threading.Event):
        """One that is waited for until the lock has come."""

        def wait(self, timeout: float | None = None) -> bool:
            one.release()
            return super().wait(timeout)

    monkeypatch.setattr(file_locks, "Event", Released)
    for instant in itertools.count():
        assert one.acquire(PATIENCE), f"kept at instant {instant}"
        if done(lambda: other.acquire(PATIENCE), instant):
            break
        one.release()
        assert third.acquire(PATIENCE), f"kept at instant {instant}"
        third.close()

    assert instant > 3
    for lock in (one, other, third):
        lock.close()


def test_closing_waits_no_longer_than_the_deadline(path: Path) -> None:
    log = stenolog.open(path, deadline=0.01)
    with log.datastore.writing() as connection:
        log.close()
        connection.execute("SELECT 1").fetchall()
    connection.close()

    with stenolog.open(path) as again:
        said(again["demo"], "a")
