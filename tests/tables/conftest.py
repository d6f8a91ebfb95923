"""A log in a file, with times and ids that are the same in every run; a PostgreSQL server of our own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import psycopg
import pytest

import stenolog
from stenolog import Log
from tests.tables.server import programs, serving

START = datetime(2026, 1, 1, tzinfo=UTC)
NUMBERS = count(1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talks.db"


@pytest.fixture
def log(path: Path) -> Iterator[Log]:
    ticks, numbers = count(), count(1)
    with stenolog.open(
        path, clock=lambda: START + timedelta(seconds=next(ticks)), ids=lambda: f"e{next(numbers)}"
    ) as opened:
        yield opened


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Yield the address of a PostgreSQL server that lives as long as the tests."""
    bin = programs()
    if bin is None:
        pytest.skip("no PostgreSQL is installed here")
    with serving(bin) as dsn:
        yield dsn


@pytest.fixture
def dsn(server: str) -> str:
    """Return the address of a new database on it."""
    name = f"t{next(NUMBERS)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    return server.replace("dbname=postgres", f"dbname={name}")
