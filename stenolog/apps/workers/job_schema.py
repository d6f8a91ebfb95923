"""Tables of the queue in a schema beside the log's, created by the first user.

Procrastinate's tables, with one more index and one trigger less, and two of ours.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from psycopg import errors as pg

from stenolog.domain.errors import InvalidEventError, StoreError

if TYPE_CHECKING:
    from stenolog.adapters.store.postgres.connection.datastore import LogConnection, PostgresLogDatastore

SUFFIX = "_jobs"
MOST = 63
"""The longest name of a schema; PostgreSQL cuts a longer one off."""
# "STNP"; two processes that need the tables at once take turns.
MAKING = "SELECT pg_advisory_xact_lock(1398034000)"
HAS_TABLES = """SELECT EXISTS (SELECT FROM pg_catalog.pg_class
    JOIN pg_catalog.pg_namespace AS n ON n.oid = relnamespace WHERE nspname = %s AND relname = 'workers')"""
MAY_USE = "SELECT has_schema_privilege(%s, 'USAGE')"
# Without the index a fetch looks at every waiting job for each one whose lock is taken: half a second at
# 5,000 of them. The trigger's NOTIFY takes a lock of the whole server over each commit, and the log's own
# news of commits wakes the workers.
OURS = """
CREATE INDEX jobs_by_lock ON procrastinate_jobs (lock, priority, id) WHERE status IN ('todo', 'doing');
ALTER TABLE procrastinate_jobs DISABLE TRIGGER procrastinate_jobs_notify_queue_job_inserted_v1;
CREATE UNLOGGED TABLE breakers (
    model TEXT COLLATE "C" PRIMARY KEY,
    open_until TIMESTAMPTZ NOT NULL
);
CREATE UNLOGGED TABLE workers (
    id TEXT PRIMARY KEY,
    team TEXT COLLATE "C" NOT NULL,
    digest TEXT NOT NULL,
    started TIMESTAMPTZ NOT NULL,
    seen TIMESTAMPTZ NOT NULL,
    host TEXT NOT NULL,
    pid INT NOT NULL,
    concurrency INT NOT NULL,
    doing JSONB NOT NULL
) WITH (fillfactor = 50)
"""
"""`workers` and `breakers` are renewed each second, so they need no durability."""


def found(store: PostgresLogDatastore) -> str | None:
    """Return the queue's schema; None before it is created. Raises `StoreError`."""
    schema = f"{store.address.schema}{SUFFIX}"
    if not store.read(partial(_has_tables, schema=schema)):
        return None
    _check_right(store, schema)
    return schema


def ensure(store: PostgresLogDatastore, schema_sql: str) -> str:
    """Return the queue's schema, created if missing. Raises `StoreError`."""
    schema = f"{store.address.schema}{SUFFIX}"
    if len(schema) > MOST:
        raise InvalidEventError(
            f"schema: expected at most {MOST - len(SUFFIX)} characters, so that the jobs have one beside it"
        )
    if not found(store):
        store.write(partial(_make, schema=schema, schema_sql=schema_sql, where=store.path))
        _check_right(store, schema)
    return schema


def _check_right(store: PostgresLogDatastore, schema: str) -> None:
    """Check that the role may use the queue's schema. Raises `StoreError`."""
    # Without the right, PostgreSQL says of the types in it that they do not exist.
    if not store.read(partial(_may_use, schema=schema)):
        raise StoreError(
            f"{store.path}: expected a role that may use the schema {schema!r}, found no right to it. "
            "Let its owner grant it"
        )


def _make(connection: LogConnection, *, schema: str, schema_sql: str, where: str) -> None:
    connection.execute(MAKING)
    if _has_tables(connection, schema=schema):
        return
    try:
        connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'.encode())
        connection.execute(f'SET LOCAL search_path TO "{schema}"'.encode())
        connection.execute(schema_sql.encode())
        connection.execute(OURS.encode())
    except pg.InsufficientPrivilege as error:
        raise StoreError(
            f"{where}: expected a role that may create the schema {schema!r}, found: {error}. Let its owner "
            "run `stenolog worker` once"
        ) from error


def _may_use(connection: LogConnection, *, schema: str) -> bool:
    (granted,) = connection.execute(MAY_USE, (schema,)).fetchone() or (False,)
    return bool(granted)


def _has_tables(connection: LogConnection, *, schema: str) -> bool:
    (found,) = connection.execute(HAS_TABLES, (schema,)).fetchone() or (False,)
    return bool(found)
