"""A log in a file, with times and ids that are the same in every run; a PostgreSQL server of our own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import psycopg
import pytest

import stenolog
from stenolog import Log
from tests.postgres.server import programs, serving
from tests.tables import mysql_server
from tests.tables.application import Application

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


@pytest.fixture(scope="session")
def mysql() -> Iterator[str]:
    """Yield the socket of a MariaDB server that lives as long as these tests."""
    found = mysql_server.programs()
    if found is None:
        pytest.skip("no MariaDB is installed here")
    with mysql_server.serving(*found) as socket:
        yield socket


@pytest.fixture(params=["sqlite", "postgres", "mysql"])
def application(request: pytest.FixtureRequest, tmp_path: Path) -> Application:
    match request.param:
        case "sqlite":
            path = str(tmp_path / "application.db")
            return Application("sqlite", lambda: sqlite3.connect(path, timeout=30), path)
        case "postgres":
            dsn: str = request.getfixturevalue("dsn")
            return Application("postgres", lambda: psycopg.connect(dsn), dsn)
        case _:
            socket, name = request.getfixturevalue("mysql"), f"t{next(NUMBERS)}"
            Application("mysql", lambda: mysql_server.connect(socket), "").run(f"CREATE DATABASE {name}")
            connect = lambda: mysql_server.connect(socket, database=name)  # noqa: E731
            return Application("mysql", connect, f"{socket} {name}")
