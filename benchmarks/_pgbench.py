"""Scripts for pgbench: a plain INSERT, the append of this log, and that of the library's own recorder."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

import psycopg
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore

from stenolog.adapters.store.postgres.appends import APPEND_ONE
from stenolog.adapters.store.postgres.connection.datastore import turns_of
from tests.postgres.server import Server

PAYLOAD = "ab" * 500
"""A payload of 500 bytes, as hexadecimal digits."""
PLAIN_TABLE = """DROP TABLE IF EXISTS plain;
    CREATE TABLE plain (id BIGSERIAL UNIQUE, stream BIGINT, position BIGINT, entry_id TEXT, at BIGINT,
        topic TEXT, salt BYTEA, digest BYTEA, state BYTEA, PRIMARY KEY (stream, position))"""
"""The two keys that a log needs at least, and that the library's table has."""
PLAIN_INSERT = b"""INSERT INTO plain (stream, position, entry_id, at, topic, salt, digest, state)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"""
ID = "md5(random()::text)"
VALUES = {
    "turn": "(:client_id + 1)::int",
    "key": "(:client_id + 1)::bigint",
    "before": "(:before)::bigint",
    "last": "(:before + 1)::bigint",
    "digest": f"decode('{'cd' * 32}', 'hex')",
    "at": "1764000000000000",
    "place": "0",
    "id": ID,
    "time": "1764000000000000",
    "topic": "'user_message@1'",
    "salt": f"decode('{'ef' * 16}', 'hex')",
    "size": "NULL",
    "erased": "NULL",
    "state": f"decode('{PAYLOAD}', 'hex')",
}


def plain() -> str:
    """Return the script of an INSERT and its COMMIT, of the same bytes."""
    return f"""INSERT INTO plain (stream, position, entry_id, at, topic, salt, digest, state)
        VALUES (:client_id + 1, :before, {ID}, 1764000000000000, 'user_message@1',
        decode('{"ef" * 16}', 'hex'), decode('{"cd" * 32}', 'hex'), decode('{PAYLOAD}', 'hex'));"""


def ours(schema: str) -> str:
    """Return the script of an append to the client's own conversation, behind a head that it knows."""
    statement = APPEND_ONE.replace("{s}", schema).replace("{class}", str(turns_of(schema)))
    return re.sub(r"%\((\w+)\)s", lambda found: VALUES[found[1]], statement) + ";"


def stock(server: Server) -> str:
    """Return the script of an append of the library's recorder, whose tables are made."""
    library(server, "stock", 1)[1].close()
    return f"""\\startpipeline
    BEGIN;
    SET LOCAL lock_timeout = '0s';
    LOCK TABLE stock.stored_events IN EXCLUSIVE MODE;
    NOTIFY stored_events;
    INSERT INTO stock.stored_events (originator_id, originator_version, topic, state) VALUES
        ({ID}, :before, 'user_message@1', decode('{PAYLOAD}', 'hex')) RETURNING notification_id;
    COMMIT;
    \\endpipeline"""


def library(server: Server, schema: str, size: int) -> tuple[PostgresApplicationRecorder, PostgresDatastore]:
    """Return the library's own recorder, with so many connections, and what closes them."""
    datastore = PostgresDatastore(
        "postgres", server.folder, 5432, "tests", "", pool_size=size, connect_timeout=30,
        originator_id_type="text", schema=schema,
    )  # fmt: skip
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}".encode())
    recorder = PostgresApplicationRecorder(datastore)
    recorder.create_table()
    return recorder, datastore


def rate(server: Server, script: str, clients: int, seconds: int) -> float:
    """Return the transactions a second of a script that so many clients run."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "script.sql")
        file.write_text(f"\\set before :before + 1\n{script}\n")
        done = subprocess.run(
            [
                server.bin / "pgbench", "-n", "-M", "prepared", "-c", str(clients), "-j", "2",
                "-T", str(seconds), "-D", "before=-1", "-f", file,
                "-h", server.folder, "-U", "tests", "postgres",
            ],
            env={**os.environ, "LC_ALL": "C"}, text=True, capture_output=True, check=False,
        )  # fmt: skip
    found = re.search(r"tps = ([\d.]+)", done.stdout)
    if found is None or done.returncode:
        raise SystemExit(f"pgbench: {done.stderr[-2000:]}")
    return float(found[1])
