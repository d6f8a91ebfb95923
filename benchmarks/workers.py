"""Workers on PostgreSQL: submits a second, the fetch behind blocked jobs, four workers beside one."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import multiprocessing.synchronize
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import contextmanager
from statistics import median

import psycopg

import stenolog
from benchmarks._ratio import Row, accepted
from stenolog import Agent, Log, Team, TextPart
from stenolog.apps.workers.queues import queue_of
from stenolog.models import Model, ModelRequest, ModelResponse, ResponseDelta
from stenolog.workers import Worker, submit_sync
from tests.postgres.server import DURABLE, Server, programs, running

CLIENTS = 32
PROCESSES = 4
SECONDS = 4.0
BLOCKED = 5_000
TALKS = 400
# So few that the workers wait for their models, and not for the processors of a small machine.
CONCURRENCY = 10
CONTEXT = multiprocessing.get_context("spawn")
SCHEMAS = itertools.count(1)
FETCH = "SELECT * FROM procrastinate_fetch_job_v2(ARRAY['team'], 1)"


class OneSecond(Model):
    """A model whose answers take a second."""

    provider = name = "one-second"

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        await asyncio.sleep(1.0)
        yield ModelResponse((TextPart(text="An answer."),))


def run() -> Iterable[Row]:
    bin = programs()
    if bin is None:
        return
    with running(bin, DURABLE) as server:
        yield accepted(submits(server), 1.9)
        yield fetch(server)
        yield several(server)


@contextmanager
def made(server: Server) -> Iterator[tuple[str, Log]]:
    """Yield a new log in a schema of its own, with the tables of its queue."""
    address = server.address(schema=f"w{next(SCHEMAS)}")
    with stenolog.open(address) as log:
        queue_of(log)
        yield address, log


def submits(server: Server) -> Row:
    """Return the seconds that a submit takes of all, where so many clients submit at once."""
    with made(server) as (address, _), CONTEXT.Pool(PROCESSES) as pool:
        threads = CLIENTS // PROCESSES
        asked = [(address, number, threads) for number in range(PROCESSES)]
        rate = sum(pool.starmap(submitting, asked)) / SECONDS
    note = f"{rate:.0f}/s from {PROCESSES} processes"
    return Row(f"a submit, {CLIENTS} clients", 1000 / rate, 1.0, "ms", note)


def submitting(address: str, process: int, threads: int) -> int:
    """Submit in so many threads, each to conversations of its own; return the number of submits."""
    from benchmarks.postgres import threads as counted

    def client(log: Log, number: int) -> Callable[[], object]:
        numbers = itertools.count()
        return lambda: submit_sync(log[f"talk {process} {number} {next(numbers) % 8}"], "word " * 20)

    with stenolog.open(address) as log:
        return sum(counted([client(log, number) for number in range(threads)], SECONDS))


def fetch(server: Server) -> Row:
    """Return the time of a fetch behind jobs whose conversation another worker has."""
    with made(server) as (_, log):
        submit_sync(log["demo"], "What is it?")
        schema = f"{log.recorder.datastore.address.schema}_jobs"  # type: ignore[attr-defined]
        path = f"-c search_path={schema}"
        with psycopg.connect(server.conninfo, options=path, autocommit=True) as connection:
            connection.execute("UPDATE procrastinate_jobs SET status = 'doing'")
            connection.execute(
                "INSERT INTO procrastinate_jobs (queue_name, task_name, lock) SELECT 'team', 'advance', "
                "(SELECT lock FROM procrastinate_jobs LIMIT 1) FROM generate_series(1, %s)",
                (BLOCKED,),
            )
            connection.execute("ANALYZE procrastinate_jobs")
            connection.execute("INSERT INTO procrastinate_workers DEFAULT VALUES")
            took = []
            for _ in range(20):
                began = time.perf_counter()
                connection.execute(FETCH.encode())
                took.append(1000 * (time.perf_counter() - began))
    return Row(f"a fetch behind {BLOCKED:,} blocked jobs", median(took), 20.0, "ms")


def several(server: Server) -> Row:
    """Return the rate of one worker to that of four, with a model whose answers take a second."""
    one, four = answered(server, 1, TALKS // 4), answered(server, 4, TALKS)
    note = f"{one:.1f} and {four:.1f} answers/s of {CONCURRENCY} and {4 * CONCURRENCY} possible"
    return Row("one worker to four, models of a second", one / four, 1 / 3.4, note=note)


def answered(server: Server, workers: int, talks: int) -> float:
    """Return the answers a second of so many workers to so many conversations, all submitted before."""
    with made(server) as (address, log):
        begin = CONTEXT.Event()
        processes = [
            CONTEXT.Process(target=working, args=(address, begin), daemon=True) for _ in range(workers)
        ]
        for process in processes:
            process.start()
        for number in range(talks):
            submit_sync(log[f"talk {number}"], "What is it?", team="later")
        time.sleep(3.0)  # until all of them wait for the beginning
        schema = f"{log.recorder.datastore.address.schema}_jobs"  # type: ignore[attr-defined]
        left = f"SELECT 1 FROM {schema}.procrastinate_jobs LIMIT 1".encode()
        began = time.perf_counter()
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            connection.execute(f"UPDATE {schema}.procrastinate_jobs SET queue_name = 'team'".encode())
            begin.set()
            while connection.execute(left).fetchone():
                time.sleep(0.02)
        took = time.perf_counter() - began
        for process in processes:
            process.kill()
            process.join()
    return talks / took


def working(address: str, begin: multiprocessing.synchronize.Event) -> None:
    """Run a worker once it may begin, until the process is killed."""
    with stenolog.open(address) as log:
        team = Team([Agent("coder", llm=OneSecond())])
        begin.wait()
        asyncio.run(Worker(log, team, concurrency=CONCURRENCY).run())
