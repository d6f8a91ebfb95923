"""Appending one entry, against sqlite3 by hand: the same columns, the same chain, the same durability."""

from __future__ import annotations

import os
import secrets
import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from benchmarks._ratio import Row, compared
from stenolog.adapters.conversation import log as logs
from stenolog.adapters.store.contract.values import Synchronous
from stenolog.adapters.store.sqlite.statements.event_rows import INSERT
from stenolog.adapters.store.sqlite.statements.schema import MIGRATIONS
from stenolog.domain.events import UserMessage

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MESSAGE = UserMessage(text="Which test fails, and since which commit? " * 7)


def run() -> Iterable[Row]:
    yield row("full", 1.2, rounds=1500)
    yield row("normal", 1.5, rounds=8000)


def row(synchronous: Synchronous, limit: float, rounds: int) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        floor, connection = by_hand(Path(folder, "floor.db"), synchronous)
        with logs.open(Path(folder, "ours.db"), synchronous=synchronous) as log:
            talk = log["talk"]
            ours_s, floor_s = compared(lambda: talk.append(MESSAGE), floor, rounds)
        connection.close()
    note = f"{ours_s * 1e6:.0f} against {floor_s * 1e6:.0f} µs"
    return Row(f"append one entry, synchronous={synchronous}", ours_s / floor_s, limit, note=note)


def by_hand(path: Path, synchronous: str) -> tuple[Callable[[], None], sqlite3.Connection]:
    """Append as one would without a library: no retries, no checks, one process."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.executescript(MIGRATIONS[0])
    connection.execute("INSERT INTO conversations (name) VALUES ('talk')")
    dump = UserMessage.__pydantic_serializer__.to_json  # type: ignore[attr-defined]
    position, digest = 0, b""

    def append() -> None:
        nonlocal position, digest
        position += 1
        id, salt = secrets.token_hex(8), os.urandom(16)
        at = int((datetime.now(UTC) - EPOCH).total_seconds() * 1e6)
        payload = dump(MESSAGE, exclude_defaults=True)
        header = f"{position}\n{id}\n{at}\nuser_message@1\n{len(payload)}\n".encode()
        digest = sha256(digest + header + sha256(salt + payload).digest()).digest()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(INSERT, (1, position, id, at, "user_message@1", salt, digest, payload, None))
        connection.execute("COMMIT")

    return append, connection
