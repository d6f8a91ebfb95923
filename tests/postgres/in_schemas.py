"""Logs of any test in PostgreSQL: the path of a file becomes a schema on a server of the tests' own.

`pytest --log postgresql` names `install` as a plugin in the environment, so every process that opens a log,
also one that a test starts, takes the same schema for the same path.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import stenolog
from stenolog.adapters.conversation import log, opening
from stenolog.adapters.store.contract.address import is_address
from stenolog.adapters.store.contract.application import LogApplication

from .server import VERSIONS, running

VARIABLE = "STENOLOG_TEST_SERVER"
"""The variable of the environment with the folder of the server's socket."""
PREFIX = "file_"
"""The names of the schemas begin with this."""
SCHEMAS = f"SELECT nspname FROM pg_namespace WHERE starts_with(nspname, '{PREFIX}')"
_open_application = opening.open_application


def address_of(path: str | os.PathLike[str]) -> str:
    """Return the address that a log in the file at `path` has on the server of the tests."""
    digest = sha256(os.path.realpath(path).encode()).hexdigest()
    return f"postgresql://tests@/postgres?host={os.environ[VARIABLE]}&schema={PREFIX}{digest[:16]}"


def is_chosen() -> bool:
    """Return whether the logs of this run are in schemas."""
    return VARIABLE in os.environ


def tables_beside(path: str | os.PathLike[str]) -> str:
    """Return how libpq connects to the schema of a path's log, for tables that follow the log there."""
    schema = address_of(path).rpartition("=")[2]
    return f"host={os.environ[VARIABLE]} user=tests dbname=postgres options=-csearch_path={schema}"


@contextmanager
def connected(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Yield another program's connection to the log of a path, in a transaction."""
    import psycopg

    server, _, schema = address_of(path).rpartition("&schema=")
    with psycopg.connect(server) as connection:
        connection.execute(f"SET search_path TO {schema}".encode())
        yield connection


def open_in_schema(path: str | os.PathLike[str], *given: Any, **options: Any) -> LogApplication:
    """Do what `open_application` does, with a schema in place of a file."""
    if is_address(path) or os.fspath(path) == ":memory:" or _is_sqlite(path):
        return _open_application(path, *given, **options)
    # So that whoever looks finds a log at the path.
    with suppress(OSError):
        Path(path).touch()
    return _open_application(address_of(path), *given, **options)


def _is_sqlite(path: str | os.PathLike[str]) -> bool:
    # A backup is a file of SQLite's, whatever it is of.
    with suppress(OSError):
        return Path(path).read_bytes()[:6] == b"SQLite"
    return False


def damage(path: Path, position: int, stream: int = 1) -> None:
    """Overwrite the payload of an entry behind the store's back, wherever the log is."""
    if is_chosen():
        statement = "UPDATE stored_events SET state = %s WHERE position = %s AND stream = %s"
        with connected(path) as schema:
            schema.execute(statement, (b"\0\xff", position, stream))
        return
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(
            "UPDATE stored_events SET state = x'00ff' WHERE originator_version = ? AND originator_id = ?",
            (position, stream),
        )


def copy(path: Path, folder: Path) -> None:
    """Copy a log that nobody has open into a file of the same name in a folder."""
    if not is_chosen():
        shutil.copy(path, folder)
        return
    with stenolog.open(path) as one:
        one.backup(folder / path.name)


def install() -> None:
    """Open the logs of this process in schemas."""
    opening.open_application = log.open_application = open_in_schema  # type: ignore[attr-defined]


@contextmanager
def served() -> Iterator[Mapping[str, str]]:
    """Run a server, and yield the variables by which processes open their logs on it."""
    bins = filter(None, (found() for found, _ in VERSIONS.values()))
    with running(next(bins)) as server:
        yield {VARIABLE: server.folder, "STENOLOG_PLUGINS": f"{__name__}:install"}


@contextmanager
def dropped() -> Iterator[None]:
    """Drop the schemas that were made in the block."""
    import psycopg

    with psycopg.connect(f"host={os.environ[VARIABLE]} user=tests dbname=postgres", autocommit=True) as one:
        before = {name for (name,) in one.execute(SCHEMAS)}
        yield
        one.execute("SET lock_timeout = '10s'; SET client_min_messages = warning")
        for (name,) in one.execute(SCHEMAS).fetchall():
            if name not in before:
                one.execute(f'DROP SCHEMA "{name}" CASCADE'.encode())
