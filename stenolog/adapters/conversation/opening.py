"""The application of a log's path or address: an SQLite file, memory, or PostgreSQL."""

from __future__ import annotations

import os
from typing import get_args

from stenolog.adapters.store.contract.address import checked, is_postgres
from stenolog.adapters.store.contract.appends import Sources
from stenolog.adapters.store.contract.application import LogApplication
from stenolog.adapters.store.contract.values import DEADLINE, Synchronous
from stenolog.adapters.store.sqlite.application import SqliteLogApplication
from stenolog.domain.errors import MissingExtraError


def open_application(
    path: str | os.PathLike[str],
    edge: Sources,
    *,
    synchronous: Synchronous = "full",
    deadline: float = DEADLINE,
    make: bool = True,
) -> LogApplication:
    """Return the opened log of a path or address; otherwise as `stenolog.open`.

    `make` False: in PostgreSQL, raises FileNotFoundError, a `StoreError` too, if there is no log. For a file
    the caller checks.
    """
    text = checked(path)
    if not is_postgres(text):
        env = {
            "SQLITE_DBNAME": text,
            "SQLITE_SYNCHRONOUS": synchronous,
            "SQLITE_LOCK_TIMEOUT": str(deadline),
        }
        return SqliteLogApplication(env, edge)
    if synchronous not in get_args(Synchronous):
        raise ValueError(f"synchronous: expected 'full' or 'normal', found {synchronous!r}")
    env = {"POSTGRES_ADDRESS": text, "POSTGRES_TIMEOUT": str(deadline)}
    if synchronous == "normal":
        env["POSTGRES_SYNCHRONOUS"] = synchronous
    if not make:
        env["POSTGRES_MAKE"] = "no"
    return _in_postgres()(env, edge)


def _in_postgres() -> type[LogApplication]:
    # Late: an SQLite log needs no driver of PostgreSQL.
    try:
        from stenolog.adapters.store.postgres.application import PostgresLogApplication
    except ImportError as error:
        # Without its binary part, or libpq, psycopg raises an error without a name.
        if (error.name or "psycopg").startswith("psycopg"):
            raise MissingExtraError("postgres", "psycopg or psycopg_pool") from error
        raise
    return PostgresLogApplication
