"""Faults of the disk: a flipped bit is found or harmless, a full disk loses nothing."""

from __future__ import annotations

import random
import resource
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import stenolog
from stenolog import Log, StenologError, UserMessage
from stenolog.errors import StoreError
from stenolog.events import Damaged
from stenolog.maintenance import verify
from tests.counts.counters import counted
from tests.stores import workers
from tests.stores.conftest import manifold, said, texts

FLIPS = 200


def everything(log: Log) -> object:
    """Return everything that can be read from a log."""
    names = log.names(archived=True)
    entries = {name: (list(log[name].records()), [e.event for e in log[name].entries()]) for name in names}
    return list(log), names, entries, dict(log.blobs)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "talks.db"
    with stenolog.open(path) as log:
        conversation = manifold(log, 40)
        said(conversation.fork(after=4), "in the fork", "again")
        log["talk 1"].delete()
        log["talk 2"].archive()
    return path


@pytest.mark.parametrize("seed", range(FLIPS))
def test_a_flipped_bit_is_found_or_harmless(sound: Path, tmp_path: Path, seed: int) -> None:
    path = tmp_path / "talks.db"
    content = bytearray(sound.read_bytes())
    bit = random.Random(seed).randrange(len(content) * 8)
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    with stenolog.open(sound) as log:
        truth = everything(log)

    try:
        with stenolog.open(path) as log:
            report = verify(log)
            assert not report.ok or everything(log) == truth, f"bit {bit} is silent"
    except StenologError:
        pass  # found, and named


@pytest.mark.parametrize(
    "damage",
    ["digest = zeroblob(32)", "state = '{}', salt = zeroblob(16)", "state = 'x', digest = randomblob(32)"],
)
def test_a_long_run_of_damaged_entries_takes_as_many_calls_each_and_ends_where_it_ends(
    damage: str, tmp_path: Path
) -> None:
    def calls(run: int) -> int:
        path = tmp_path / f"{run}.db"
        with stenolog.open(path) as log:
            said(log["demo"], *map(str, range(run + 50)))
        with closing(sqlite3.connect(path)) as program, program:
            program.execute(
                f"UPDATE stored_events SET {damage} WHERE originator_version BETWEEN 11 AND ?", (10 + run,)
            )
        with stenolog.open(path) as log:
            found = counted(lambda: list(log["demo"].entries()))["calls"]
            damaged = [each.position for each in log["demo"].entries() if isinstance(each.event, Damaged)]
        assert damaged in ([*range(11, 11 + run)], [*range(11, 12 + run)])
        return found

    assert calls(400) < 2.2 * calls(200)


class TestFullDisk:
    """Nothing is half written when the disk is full, and the log goes on when it no longer is."""

    @pytest.fixture
    def conversation(self, path: Path) -> Iterator[stenolog.Conversation]:
        with stenolog.open(path) as log:
            said(log["demo"], "a")
            yield log["demo"]

    def fill(self, conversation: stenolog.Conversation) -> int:
        """Append until the disk is full; how many were acknowledged."""
        for count in range(10_000):
            try:
                conversation.append(UserMessage(text="x" * 1000))
            except StoreError:
                return count
        raise AssertionError("the disk is never full")

    def test_of_a_database_that_may_not_grow(self, conversation: stenolog.Conversation) -> None:
        connection: sqlite3.Connection = conversation.log.datastore.writer
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 50}")

        count = self.fill(conversation)
        assert conversation.position == 2 + count
        with pytest.raises(StoreError, match="full"):
            conversation.extend([UserMessage(text="x" * 1000)] * 10)
        with pytest.raises(StoreError, match="full"):
            conversation.log.blobs.put(bytes(100_000))
        assert conversation.position == 2 + count

        connection.execute("PRAGMA max_page_count = 1000000")
        said(conversation, "b")
        assert conversation.position == 3 + count
        assert verify(conversation.log).ok

    def test_of_a_process_whose_files_may_not_grow(self, path: Path) -> None:
        assert workers.run(1, fill_under_a_limit, str(path)) == ["went on"]
        with stenolog.open(path) as log:
            assert verify(log).ok
            assert texts(log["demo"])[-1] == "after"


def fill_under_a_limit(number: int, barrier: object, path: str) -> str:
    """Let files grow to 100 kB in a process of its own, fill them, and continue without the limit."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with stenolog.open(path) as log:
        conversation = log["demo"]
        said(conversation, "before")
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        acknowledged = 2
        try:
            while acknowledged < 10_000:
                acknowledged = conversation.append(UserMessage(text="x" * 1000)).position
        except StoreError:
            assert conversation.position == acknowledged
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        said(conversation, "after")
        assert conversation.position == acknowledged + 1
    return "went on"
