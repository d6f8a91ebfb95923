"""The queue in PostgreSQL: no wake-up is lost, none stands in another one's way, and none is left over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

import stenolog
from stenolog import Agent, Log, Team
from stenolog.adapters.engine.team.visits import visit
from stenolog.apps.workers import procrastinate_queue, worker
from stenolog.apps.workers.queues import queue_of
from stenolog.engine import RetryPolicy
from stenolog.models import ModelError, Scripted
from stenolog.workers import submit, submit_sync
from tests.postgres.server import Server
from tests.workers.given import answering, jobs, schema_of, texts, until, working


class Tables:
    """The tables of a queue, with statements over them."""

    def __init__(self, server: Server, address: str) -> None:
        self.server = server
        self.address = address

    @contextmanager
    def opened(self) -> Iterator[psycopg.Connection[Any]]:
        """Yield a connection whose statements mean these tables."""
        path = f"-c search_path={schema_of(self.address)}_jobs -c lock_timeout=10s"
        with psycopg.connect(self.server.conninfo, options=path, autocommit=True) as connection:
            yield connection

    async def run(self, statement: str) -> None:
        """Execute a statement, in a thread: a worker in this event loop may have what it waits for."""

        def run() -> None:
            with self.opened() as connection:
                connection.execute(statement.encode())

        await asyncio.to_thread(run)

    def jobs(self) -> list[dict[str, Any]]:
        """Return the jobs."""
        return jobs(self.server, self.address)

    def count(self, table: str) -> int:
        """Return the number of rows in a table."""
        with self.opened() as connection:
            (found,) = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone() or (0,)
            return int(found)


@pytest.fixture
def tables(postgres: Callable[[str], Server], server_log: str) -> Tables:
    return Tables(postgres("postgres 15"), server_log)


@pytest.fixture
def log(server_log: str) -> Iterator[Log]:
    with stenolog.open(server_log) as opened:
        yield opened


async def test_nothing_is_left_in_any_table_when_everything_is_answered(log: Log, tables: Tables) -> None:
    async with working(log, answering("A cat.", "A dog.")):
        await submit(log["demo"], "What is it?")
        await until(lambda: "A cat." in texts(log["demo"]))
    rows = {name: tables.count(name) for name in ("procrastinate_jobs", "procrastinate_events", "workers")}

    assert rows == {"procrastinate_jobs": 0, "procrastinate_events": 0, "workers": 0}
    assert tables.count("procrastinate_workers") == 0


async def test_a_stalled_job_is_given_back_while_another_one_of_its_conversation_waits(
    log: Log, tables: Tables
) -> None:
    for number in range(2):
        await submit(log["demo"], f"Message {number}")
    # Of a dead worker, whose row another worker has removed.
    await tables.run(
        "UPDATE procrastinate_jobs SET status = 'doing' WHERE id = (SELECT min(id) FROM procrastinate_jobs)"
    )
    async with working(log, answering("A cat.", "A dog.")):
        await until(lambda: "A cat." in texts(log["demo"]) and not tables.jobs())


async def test_a_frozen_worker_whose_job_was_given_to_another_one_does_not_remove_it(
    log: Log, tables: Tables
) -> None:
    await submit(log["demo"], "What is it?")
    await tables.run("UPDATE procrastinate_jobs SET status = 'doing'")
    (before,) = tables.jobs()
    queue = queue_of(log)
    assert isinstance(queue, procrastinate_queue.ProcrastinateQueue)
    async with queue._opened(lambda key: until(lambda: True)):
        assert await queue.janitor() == 1
    (after,) = tables.jobs()

    # What the frozen worker ends when it thaws is its own job, which is gone.
    assert after["id"] != before["id"]
    assert (after["lock"], after["args"], after["status"]) == (before["lock"], before["args"], "todo")


async def test_a_job_whose_end_could_not_be_written_is_given_back_by_its_own_worker(
    log: Log, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(procrastinate_queue, "FORGOTTEN", 0.2)
    async with working(log, answering("A cat.", "A dog.")):
        await submit(log["demo"], "What is it?")
        await until(lambda: "A cat." in texts(log["demo"]) and not tables.jobs())
        submit_sync(log["demo"], "And this?", team="another")
        await tables.run(
            "UPDATE procrastinate_jobs SET status = 'doing', queue_name = 'team', args = args || "
            '\'{"team": "team"}\', worker_id = (SELECT id FROM procrastinate_workers)'
        )
        await until(lambda: "A dog." in texts(log["demo"]) and not tables.jobs())


@pytest.mark.slow
async def test_a_worker_that_others_took_for_dead_works_on(log: Log, tables: Tables) -> None:
    async with working(log, answering("A cat.", "A dog.")):
        await submit(log["demo"], "What is it?")
        await until(lambda: "A cat." in texts(log["demo"]))
        await tables.run("DELETE FROM procrastinate_workers")
        await submit(log["demo"], "And this?")
        await until(lambda: "A dog." in texts(log["demo"]) and not tables.jobs())


async def test_news_of_an_append_wake_a_worker_that_would_look_much_later(
    log: Log, server_log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(procrastinate_queue, "POLL", 60.0)
    with stenolog.open(server_log) as elsewhere:
        async with working(log, answering("A cat.", "A dog.")):
            await until(
                lambda: "A cat." in texts(log["demo"]) or submit_sync(elsewhere["demo"], "It?", id="1") < 0
            )
            await submit(elsewhere["demo"], "And this?")

            assert await until(lambda: "A dog." in texts(log["demo"])) < 2.0


def test_the_queue_has_its_index_and_no_trigger_that_notifies(log: Log, tables: Tables) -> None:
    submit_sync(log["demo"], "What is it?")
    with tables.opened() as connection:
        (enabled,) = connection.execute(
            "SELECT tgenabled FROM pg_trigger WHERE tgrelid = 'procrastinate_jobs'::regclass"
            " AND tgname = 'procrastinate_jobs_notify_queue_job_inserted_v1'"
        ).fetchone() or ("",)
        (index,) = connection.execute("SELECT to_regclass('jobs_by_lock') IS NOT NULL").fetchone() or (False,)

    assert (enabled, index) == ("D", True)


@pytest.mark.slow
def test_a_fetch_takes_no_longer_for_thousands_of_jobs_whose_conversation_is_at_work(
    log: Log, tables: Tables
) -> None:
    submit_sync(log["demo"], "What is it?")
    with tables.opened() as connection:
        connection.execute("UPDATE procrastinate_jobs SET status = 'doing'")
        connection.execute(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, lock) SELECT 'team', 'advance', "
            "(SELECT lock FROM procrastinate_jobs LIMIT 1) FROM generate_series(1, 5000)"
        )
        connection.execute("ANALYZE procrastinate_jobs")
        connection.execute("INSERT INTO procrastinate_workers DEFAULT VALUES")
        took = []
        for _ in range(10):
            began = time.perf_counter()
            connection.execute("SELECT * FROM procrastinate_fetch_job_v2(ARRAY['team'], 1)")
            took.append(time.perf_counter() - began)

    assert min(took) < 0.1  # half a second without the index


@pytest.mark.slow
async def test_a_run_that_waits_long_gives_its_slot_back_and_is_woken_when_it_is_due(
    log: Log, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "PATIENCE", 0.5)
    waiting = RetryPolicy(base=3.0, max_delay=3.0)
    team = answering(ModelError("overloaded", "later"), "A cat.", retries=waiting)
    async with working(log, team) as at_work:
        await submit(log["demo"], "What is it?")
        await until(lambda: log["demo"].state().lane("coder").retry_at and not at_work.doing)
        await until(
            lambda: [(job["task_name"], job["status"]) for job in tables.jobs()] == [("later", "todo")]
        )
        await until(lambda: "A cat." in texts(log["demo"]) and not tables.jobs())


async def test_a_wake_up_for_later_does_not_hold_back_what_a_person_says_meanwhile(
    log: Log, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "PATIENCE", 0.5)
    waiting = RetryPolicy(base=300.0, max_delay=300.0)
    team = Team(
        [
            Agent("coder", llm=Scripted(ModelError("overloaded", "later"), "A cat."), retries=waiting),
            Agent("reader", llm=Scripted("A dog.")),
        ]
    )
    async with working(log, team) as at_work:
        await submit(log["demo"], "What is it?", to="coder")
        await until(lambda: log["demo"].state().lane("coder").retry_at and not at_work.doing)
        await submit(log["demo"], "And this?", to="reader")
        await until(lambda: "A dog." in texts(log["demo"]) and not at_work.doing)
        # The wake-up is there once, as long as it is not its time.
        await until(lambda: [job["task_name"] for job in tables.jobs()] == ["later"])


@pytest.mark.slow
async def test_a_run_that_fails_is_tried_again(
    log: Log, tables: Tables, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [OSError("no disk"), ValueError("no sense")]

    async def failing(*arguments: Any) -> float | None:
        if failures:
            raise failures.pop()
        return await visit(*arguments)

    monkeypatch.setattr("stenolog.apps.workers.worker.visit", failing)
    async with working(log, answering("A cat.")):
        await submit(log["demo"], "What is it?")
        await until(lambda: "A cat." in texts(log["demo"]) and not tables.jobs())

    assert "demo: the run has failed, and is tried again in 1 s: ValueError: no sense" in caplog.text


@pytest.mark.slow
async def test_a_worker_goes_on_when_the_server_was_away(log: Log, tables: Tables) -> None:
    async with working(log, answering("A cat.", "A dog.")):
        await submit(log["demo"], "What is it?")
        await until(lambda: "A cat." in texts(log["demo"]))
        tables.server.crash()
        await submit(log["demo"], "And this?")
        await until(lambda: "A dog." in texts(log["demo"]) and not tables.jobs(), 40)
