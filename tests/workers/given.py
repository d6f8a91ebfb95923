"""Teams and workers of the tests, and what they leave in the tables of the queue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg

from stenolog import Agent, AssistantMessage, Conversation, Log, Team, UserMessage
from stenolog.models import Scripted
from stenolog.workers import Worker
from tests.postgres.server import Server

PATIENCE = 20.0
"""Seconds after which something that should long have come is given up."""


def answering(*answers: Any, **options: Any) -> Team:
    """Return a team of one agent that gives these answers."""
    return Team([Agent("coder", llm=Scripted(*answers), **options)])


@asynccontextmanager
async def working(log: Log, team: Team, **options: Any) -> AsyncIterator[Worker]:
    """Run a worker until the block ends."""
    worker = Worker(log, team, **options)
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await asyncio.wait_for(running, PATIENCE)


async def until(what: Callable[[], object], seconds: float = PATIENCE) -> float:
    """Wait until something is so; return the seconds that it took."""
    began = time.monotonic()
    while not await asyncio.to_thread(what):
        assert time.monotonic() - began < seconds, f"not so after {seconds:g} s"
        await asyncio.sleep(0.01)
    return time.monotonic() - began


def texts(conversation: Conversation) -> list[str]:
    """Return the texts of a conversation's messages and answers."""
    events = [entry.event for entry in conversation]
    return [event.text for event in events if isinstance(event, UserMessage | AssistantMessage)]


def schema_of(address: str) -> str:
    """Return the schema of a log in PostgreSQL."""
    return parse_qs(urlsplit(address).query)["schema"][0]


def jobs(server: Server, address: str) -> list[dict[str, Any]]:
    """Return the jobs that stand in the queue's table."""
    with psycopg.connect(server.conninfo) as connection:
        cursor = connection.cursor(row_factory=psycopg.rows.dict_row)
        table = f'"{schema_of(address)}_jobs".procrastinate_jobs'
        return cursor.execute(f"SELECT * FROM {table} ORDER BY id".encode()).fetchall()


def jobs_dropped(server: Server, address: str) -> None:
    """Drop the schema of the queue."""
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        connection.execute("SET lock_timeout = '10s'; SET client_min_messages = warning")
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema_of(address)}_jobs" CASCADE'.encode())
