"""Several processes and threads on one file: nobody starves, nothing is lost, and a kill loses nothing."""

from __future__ import annotations

import os
import random
import select
import signal
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean

import pytest

import stenolog
from stenolog import Log
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.store.sqlite.file_locks import FileLock
from stenolog.errors import StoreError, StoreTimeoutError
from tests.stores import workers
from tests.stores.conftest import said, texts

KILLS = int(os.environ.get("STENOLOG_KILLS", "20"))


def test_an_acknowledged_entry_survives_kill_9(path: Path) -> None:
    chance = random.Random(7)
    acknowledged: dict[int, str] = {}
    for _ in range(KILLS):
        acknowledged |= killed_after(path, chance.uniform(0.0, 0.08))

    with stenolog.open(path) as log:
        report = verify(log)
        kept = {entry.position: entry.digest for entry in log["demo"].entries()}
    assert report.problems == ()
    assert sorted(kept) == list(range(1, len(kept) + 1))
    assert acknowledged.items() <= kept.items()
    assert len(acknowledged) > KILLS


def test_an_entry_that_was_committed_with_others_survives_kill_9(path: Path) -> None:
    chance = random.Random(11)
    acknowledged: set[tuple[str, int, str]] = set()
    for _ in range(KILLS // 2):
        lines = said_before(path, chance.uniform(0.0, 0.08), workers.append_together_until_killed)
        acknowledged |= {(name, int(position), digest) for name, position, digest in map(str.split, lines)}

    with stenolog.open(path) as log:
        assert verify(log).ok
        kept = {(name, entry.position, entry.digest) for name in log for entry in log[name].entries()}
    assert acknowledged <= kept
    assert len(acknowledged) > KILLS


def killed_after(path: Path, seconds: float) -> dict[int, str]:
    """Return the acknowledged appends of a process before it was killed: digests by position."""
    lines = said_before(path, seconds, workers.append_until_killed)
    return {int(position): digest for position, digest in map(str.split, lines)}


def said_before(path: Path, seconds: float, work: Callable[..., None]) -> list[str]:
    """Have a process work for some time after its first line, kill it, and give the lines that it said."""
    receiver, sender = workers.CONTEXT.Pipe(duplex=False)
    process = workers.started(work, str(path), sender)
    sender.close()
    assert select.select([receiver.fileno()], [], [], workers.PATIENCE)[0]
    time.sleep(seconds)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join(workers.PATIENCE)
    said = b""
    while some := os.read(receiver.fileno(), 1 << 16):
        said += some
    receiver.close()
    return said.decode().rpartition("\n")[0].splitlines()


def test_of_eight_processes_on_eight_conversations_the_slowest_gets_a_quarter_of_the_mean(path: Path) -> None:
    # By a number of appends: in a time, a loaded machine makes so few that their distribution is chance.
    counts = workers.run(8, workers.append_until, str(path), 8_000)

    assert min(counts) >= mean(counts) / 4
    with stenolog.open(path) as log:
        assert [log[f"talk {n}"].position for n in range(8)] == [count + 2 for count in counts]


class TestThreads:
    """A log and its handles may be shared between threads."""

    def test_threads_that_read_while_others_write(self, log: Log) -> None:
        conversation = log["demo"]
        said(conversation, "first")

        def write() -> None:
            for n in range(100):
                said(conversation, str(n))

        def read() -> None:
            while True:
                positions = [entry.position for entry in conversation.entries()]
                assert positions == list(range(1, len(positions) + 1))
                if len(positions) == 102:
                    return

        with ThreadPoolExecutor(5) as pool:
            readers = [pool.submit(read) for _ in range(4)]
            pool.submit(write).result()
            for reader in readers:
                reader.result(workers.PATIENCE)


class TestWaiting:
    """Every call has a deadline."""

    def test_who_waits_longer_than_the_deadline_is_told(self, path: Path) -> None:
        with stenolog.open(path, deadline=0.05) as log:
            said(log["demo"], "a")
            holder = FileLock(f"{path}-lock")
            assert holder.acquire(0)

            with pytest.raises(StoreTimeoutError, match=r"0\.05 s"):
                said(log["demo"], "b")
            holder.release()
            said(log["demo"], "c")
            holder.close()
            assert texts(log["demo"]) == ["a", "c"]

    def test_so_is_who_waits_for_another_program_that_writes(self, path: Path) -> None:
        with stenolog.open(path, deadline=0.05) as log:
            said(log["demo"], "a")
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")

            with pytest.raises(StoreTimeoutError, match="another program"):
                said(log["demo"], "b")
            assert texts(log["demo"]) == ["a"]
            other.close()
            said(log["demo"], "c")

    def test_a_lock_that_comes_too_late_is_let_go(self, tmp_path: Path) -> None:
        one, other, third = (FileLock(str(tmp_path / "lock")) for _ in range(3))
        assert one.acquire(0)
        assert not other.acquire(0.01)
        one.release()

        assert third.acquire(workers.PATIENCE)
        for lock in (one, other, third):
            lock.close()

    def test_a_lock_whose_file_is_read_in_its_own_process_is_held_on(self, tmp_path: Path) -> None:
        lock = FileLock(str(tmp_path / "lock"))
        assert lock.acquire(0)
        (tmp_path / "lock").read_bytes()

        assert workers.run(1, workers.try_lock, str(tmp_path / "lock")) == [False]
        lock.close()
        assert workers.run(1, workers.try_lock, str(tmp_path / "lock")) == [True]

    def test_a_lock_is_handed_on_to_who_waits(self, tmp_path: Path) -> None:
        one, other = (FileLock(str(tmp_path / "lock")) for _ in range(2))
        assert one.acquire(0)

        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(other.acquire, workers.PATIENCE)
            one.release()
            assert waiting.result()
        assert not one.acquire(0.01)
        for lock in (one, other):
            lock.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_log_carried_across_a_fork_of_the_process_refuses_to_work(path: Path) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "a")
        child = os.fork()
        if not child:
            try:
                said(log["demo"], "from the child")
            except StoreError as error:
                os._exit(0 if "open it again" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert texts(log["demo"]) == ["a"]
