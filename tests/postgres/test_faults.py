"""Servers that crash, connections that are cut, sessions that stand still, disks that are full.

Every append that was acknowledged is stored, once; and of one that was stored no error is told.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random

import psycopg
import pytest

from stenolog.adapters.store.contract.values import Claim, PendingEntry, Share, Stream
from stenolog.adapters.store.postgres.recorder import PostgresLogRecorder
from stenolog.domain.errors import OperationalError, StoreError
from tests.postgres.cutting_proxy import cutting
from tests.postgres.load import PATIENCE, Writers, chained, opened, said
from tests.postgres.server import DURABLE, EACH_VERSION, VERSIONS, Server, running
from tests.stores.contract.inspecting import faults
from tests.stores.workers import CONTEXT


@pytest.fixture(params=EACH_VERSION)
def server(request: pytest.FixtureRequest, postgres: Callable[[str], Server]) -> Server:
    return postgres(request.param)


@pytest.fixture(params=EACH_VERSION)
def durable(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Return a server of the test's own, which may crash."""
    found, reason = VERSIONS[request.param]
    bin = found()
    if bin is None:
        pytest.skip(reason)
    with running(bin, DURABLE) as server:
        yield server


class Acknowledged:
    """Writers' calls, and the ids that the log has acknowledged, by conversation."""

    def __init__(self, recorder: PostgresLogRecorder) -> None:
        self.ids: dict[str, set[str]] = {}
        self._recorder = recorder
        self._turn = threading.Lock()

    def calls(self) -> list[Callable[[], object]]:
        """Return the calls of eight writers, each with another way to append."""
        r = self._recorder

        def batch(item: PendingEntry, stream: Stream) -> object:
            (written,) = r.insert_batch([Share(stream, [item], r.head(stream).position)], [])
            assert not isinstance(written, Exception), written
            return written

        def later(item: PendingEntry, stream: Stream) -> object:
            done = threading.Event()
            pending = r.insert_later([item], done.set, stream=stream)
            assert done.wait(PATIENCE)
            return pending.result()

        def settle(item: PendingEntry, stream: Stream) -> object:
            if r.head(stream).position == 0:
                return r.append([item], stream, None)
            wanted = Claim(0, "lane", f"effect {item.id}", 1, 1, "key", "owner", 0)
            (taken,) = r.claims.take(stream, [wanted], r.head(stream).position)
            assert taken is not None
            return r.append([item], stream, None, taken.fence)

        def strict(item: PendingEntry, stream: Stream) -> object:
            return r.append([item], stream, r.head(stream).position or None)

        def commuting(item: PendingEntry, stream: Stream) -> object:
            return r.append([item], stream, None)

        ways = [(batch, "batch"), (later, "later"), (settle, "settled"), (strict, "strict")]
        ways += [(commuting, name) for name in ("own", "own too", "shared", "shared")]
        return [self._call(way, name, number) for number, (way, name) in enumerate(ways)]

    def _call(
        self, way: Callable[[PendingEntry, Stream], object], name: str, number: int
    ) -> Callable[[], object]:
        numbers, stream = count(), Stream(name)

        def call() -> None:
            id = f"{number}-{next(numbers)}"
            way(said(id), stream)
            with self._turn:
                self.ids.setdefault(name, set()).add(id)

        return call

    def check(self) -> None:
        """Fail unless exactly these entries are stored, in chains without a fault."""
        stored = {
            name: {record.id for record in records if "-" in record.id[:3]}
            for name, records in chained(self._recorder).items()
        }
        assert stored == self.ids
        assert self._recorder.claims.everywhere() == []
        assert faults(self._recorder) == []


@pytest.mark.slow
def test_appends_of_all_ways_go_on_over_three_crashes_of_the_server(durable: Server) -> None:
    with opened(durable.address(), deadline=PATIENCE) as recorder:
        acknowledged = Acknowledged(recorder)
        with Writers(acknowledged.calls()) as writers:
            for _ in range(3):
                time.sleep(0.5)
                durable.crash()
            time.sleep(0.5)
        assert writers.failed == []
        acknowledged.check()


@pytest.mark.slow
def test_a_server_that_is_away_longer_than_the_deadline_is_told_and_found_again(durable: Server) -> None:
    with opened(durable.address(), deadline=1) as recorder:
        stream = Stream("demo")
        recorder.append([said("m-1")], stream, None)
        durable.stop()
        begun = time.monotonic()
        with pytest.raises(OperationalError):
            recorder.append([said("m-2")], stream, None)
        assert time.monotonic() - begun < 5
        durable.start()

        assert recorder.append([said("m-2")], stream, None)[0].position == 3
        assert faults(recorder) == []


def cut_backends(server: Server, times: int) -> None:
    """End sessions of the log at random."""
    random = Random(3)
    pick = "SELECT pid FROM pg_stat_activity WHERE application_name = 'stenolog'"
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        for _ in range(times):
            time.sleep(random.random() * 0.05)
            if pids := connection.execute(pick).fetchall():
                connection.execute("SELECT pg_terminate_backend(%s)", random.choice(pids))


@pytest.mark.parametrize("times", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_appends_go_on_while_sessions_are_ended_at_random(server: Server, times: int) -> None:
    with server.schema() as address, opened(address, deadline=PATIENCE) as recorder:
        acknowledged = Acknowledged(recorder)
        with Writers(acknowledged.calls()) as writers:
            cut_backends(server, times)
        assert writers.failed == []
        acknowledged.check()


@pytest.mark.parametrize("times", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_appends_go_on_where_answers_of_the_server_are_cut_in_the_middle(server: Server, times: int) -> None:
    with server.schema() as address, cutting(server.folder, times) as proxy:
        through = address.replace(server.folder.replace("/", "%2F"), proxy.folder.replace("/", "%2F"))
        # The proxy must not cut the first look, which an open makes but once.
        with opened_at_last(through) as recorder:
            acknowledged = Acknowledged(recorder)
            with Writers(acknowledged.calls()) as writers:
                give_up = time.monotonic() + PATIENCE
                while proxy.cuts < times and time.monotonic() < give_up:
                    time.sleep(0.05)
            assert proxy.cuts == times
            assert writers.failed == []
            acknowledged.check()


@contextmanager
def opened_at_last(address: str) -> Iterator[PostgresLogRecorder]:
    for _ in range(20):
        try:
            with opened(address, deadline=PATIENCE) as recorder:
                yield recorder
                return
        except StoreError:
            continue


def freeze_within_a_transaction(address: str) -> None:
    """Stop this process within an append's transaction; it goes on when it is told to."""
    from stenolog.adapters.store.postgres.statements import event_rows

    with opened(address, deadline=1) as recorder:
        stream, by_ids, frozen = Stream("talk"), event_rows.by_ids, [False]

        def stops(*given: object) -> object:
            if not frozen[0]:
                frozen[0] = True
                os.kill(os.getpid(), signal.SIGSTOP)
            return by_ids(*given)  # type: ignore[arg-type]

        event_rows.by_ids = stops  # type: ignore[assignment]
        recorder.append([said("frozen")], stream, None)


def test_a_process_that_freezes_within_a_transaction_holds_up_no_other_beyond_its_deadline(
    server: Server,
) -> None:
    with server.schema() as address, opened(address, deadline=PATIENCE) as recorder:
        recorder.append([said("first")], Stream("talk"), None)
        process = CONTEXT.Process(target=freeze_within_a_transaction, args=(address,))
        process.start()
        assert process.pid is not None
        while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.01)
        started = time.monotonic()
        recorder.append([said("other")], Stream("talk"), None)
        waited = time.monotonic() - started
        os.kill(process.pid, signal.SIGCONT)
        process.join(PATIENCE)

        assert waited < 3
        assert process.exitcode == 0
        assert [record.id for record in chained(recorder)["talk"]][1:] == ["first", "other", "frozen"]


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """Mount a file system of so many megabytes on a folder."""
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m,mode=777", "tmpfs"]
    if os.getuid() != 0 or subprocess.run(["mount", *options, folder], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.slow
def test_a_full_disk_is_told_keeps_nothing_half_written_and_is_gone_with_its_cause(durable: Server) -> None:
    folder = Path(durable.folder, "small")
    folder.mkdir(mode=0o777)
    with small_disk(folder, 4):
        (folder / "space").mkdir()
        os.chmod(folder / "space", 0o777)
        os.chown(folder / "space", *(Path(durable.folder).stat()[4:6]))
        with psycopg.connect(durable.conninfo, autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{folder}/space'".encode())
            connection.execute("ALTER ROLE tests SET default_tablespace = small")
        with opened(durable.address()) as recorder:
            (folder / "ballast").write_bytes(b"b" * 1_000_000)
            stored = until_full(recorder)
            (folder / "ballast").unlink()
            recorder.append([said("behind")], Stream("talk"), None)
            ids = [record.id for record in chained(recorder)["talk"]][1:]
        with psycopg.connect(durable.conninfo, autocommit=True) as connection:
            connection.execute("DROP SCHEMA stenolog CASCADE")
            connection.execute("DROP TABLESPACE small")

    assert ids == [*stored, "behind"]


def until_full(recorder: PostgresLogRecorder) -> list[str]:
    """Append until the disk is full, and some times more; return the ids that were acknowledged."""
    stored: list[str] = []
    refused: list[str] = []
    random = Random(1)
    while len(refused) < 5:
        id = f"said {len(stored)}"
        try:
            recorder.append([said(id, random.randbytes(4000).hex())], Stream("talk"), None)
            stored.append(id)
        except StoreError as error:
            refused.append(str(error))
    assert [each for each in refused if "Check free disk space" not in each] == []
    return stored


def test_a_disk_that_is_full_during_an_append_leaves_nothing_of_it(server: Server) -> None:
    with server.schema() as address, opened(address) as recorder:
        recorder.append([said("first")], Stream("talk"), None)
        schema = address.rpartition("=")[2]
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            connection.execute(
                f"""CREATE FUNCTION "{schema}".fills() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    IF new.entry_id = 'third' THEN
                        RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full';
                    END IF; RETURN new; END $$;
                CREATE TRIGGER fills BEFORE INSERT ON "{schema}".stored_events
                    FOR EACH ROW EXECUTE FUNCTION "{schema}".fills()""".encode()
            )
            with pytest.raises(StoreError, match="No space left on device"):
                recorder.append([said("second"), said("third")], Stream("talk"), None)
            connection.execute(f'DROP TRIGGER fills ON "{schema}".stored_events'.encode())

        recorder.append([said("fourth")], Stream("talk"), None)

        assert [record.id for record in chained(recorder)["talk"]][1:] == ["first", "fourth"]
