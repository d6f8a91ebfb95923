"""The time of a turn, piece by piece, the least that the machine allows for it, and its steps by room.

A turn is five durable entries and two requests, behind a thousand others. The pieces are measured apart, in
turns, and what is left of a whole is a piece too.
"""

from __future__ import annotations

import gc
import json
import math
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from hashlib import sha256
from itertools import count
from pathlib import Path
from statistics import median

from benchmarks import _rooms
from benchmarks._ratio import Row, seconds
from benchmarks.peers.libraries.ours import AGENT, Stenolog, Stenolog32k, written
from benchmarks.peers.workload import STEPS, Event, turn
from stenolog import Conversation
from stenolog.domain.codec import REGISTRY
from stenolog.domain.policy import PolicyLike

TALK = "talk"
BEFORE, ROUNDS = 1_000, 40
BLOCK = b"x" * 4096
WARM = 3
"""Rounds that are not counted."""
POLICIES: dict[str, PolicyLike] = {"whole history": None, "32,000 tokens": Stenolog32k.policy}

Pieces = dict[str, float]
"""Seconds by what takes them."""


def run() -> Iterable[Row]:
    """Yield the times in milliseconds, without limits."""
    for name, pieces in measured().items():
        whole = pieces["a turn"]
        for piece, took in pieces.items():
            note = f"{took / whole:.0%}"
            yield Row(f"{piece}, {name}", took * 1e3, math.inf, "ms", note)
    for step, rooms in _rooms.measured().items():
        for room, took in rooms.items():
            note = f"{took / sum(rooms.values()):.0%} of CPU"
            yield Row(f"{step}, {room}", took * 1e6, math.inf, "µs", note)


def measured() -> dict[str, Pieces]:
    """Return the pieces of a turn with the whole history in each request, and under a budget."""
    found = {}
    for name, policy in POLICIES.items():
        with tempfile.TemporaryDirectory() as folder:
            found[name] = pieces(medians(ready(Path(folder), policy)))
    return found


def pieces(took: Pieces) -> Pieces:
    """Return the measured times as parts that add up to the turn, with the limit beside them."""
    rest = took["entries, without fsync"] - took["sqlite"] - took["encoding"]
    return {
        "a turn": took["turn"],
        "five commits: fsync": took["entries"] - took["entries, without fsync"],
        "five commits: SQLite": took["sqlite"],
        "five entries: JSON and digests": took["encoding"],
        "five entries: all else (ids, times, checks, locks)": rest,
        "two requests": took["turn"] - took["entries"],
        "two requests again, with nothing new": took["again"],
        "the least: five times 4 KiB and fsync, in a file that has the room": took["fsync"],
        "the least: five times json.loads": took["decoding"],
    }


def medians(works: dict[str, Callable[[], object]]) -> Pieces:
    """Return the median seconds of each, called in turns."""
    times: dict[str, list[float]] = {name: [] for name in works}
    gc.collect()
    gc.disable()
    try:
        for number in range(WARM + ROUNDS):
            for name, work in works.items():
                took = seconds(work)
                if number >= WARM:
                    times[name].append(took)
    finally:
        gc.enable()
    return {name: median(series) for name, series in times.items()}


def ready(folder: Path, policy: PolicyLike) -> dict[str, Callable[[], object]]:
    """Return all timed functions, on files that hold a thousand turns."""
    durable, fast = (Stenolog if policy is None else Stenolog32k)(), Stenolog()
    durable.open(folder / "durable.db")
    fast.open(folder / "fast.db", synchronous="normal")
    durable.fill(TALK, BEFORE)
    numbers = count(BEFORE + 1)
    rows = [(written(event), event) for event in turn(TALK, BEFORE)]
    payloads = [REGISTRY.dump(event)[1] for event, _ in rows]
    return {
        "turn": lambda: durable.turn(turn(TALK, next(numbers))),
        "again": lambda: again(durable.talk(TALK), policy),
        "entries": lambda: appended(durable, "other", next(numbers)),
        "entries, without fsync": lambda: appended(fast, "other", next(numbers)),
        "sqlite": by_hand(folder / "hand.db", payloads),
        "encoding": lambda: encoded(event for _, event in rows),
        "fsync": synced(folder / "block"),
        "decoding": lambda: [json.loads(payload) for payload in payloads],
    }


def appended(peer: Stenolog, talk: str, number: int) -> None:
    """Append five entries."""
    for event in turn(talk, number):
        peer.append(event)


def again(talk: Conversation, policy: PolicyLike) -> None:
    """Build two requests without new entries."""
    for _ in range(2):
        assert talk.request(AGENT, api="openai-chat", policy=policy).body


def encoded(events: Iterable[Event]) -> None:
    """Encode and digest each event alone, to time just that."""
    digest = b""
    for event in events:
        payload = REGISTRY.dump(written(event))[1]
        digest = sha256(digest + sha256(payload).digest()).digest()


def by_hand(path: Path, payloads: list[bytes]) -> Callable[[], None]:
    """Return the same rows in SQLite, a commit each, without fsync."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("CREATE TABLE entries (position INTEGER PRIMARY KEY, digest BLOB, payload BLOB)")

    def write() -> None:
        for payload in payloads:
            database.execute("BEGIN IMMEDIATE")
            database.execute("INSERT INTO entries (digest, payload) VALUES (?, ?)", (b"d" * 32, payload))
            database.execute("COMMIT")

    return write


def synced(path: Path) -> Callable[[], None]:
    """Write as many blocks as a turn has commits, each synced before the next, with room ahead in the log."""
    file, places = os.open(path, os.O_CREAT | os.O_WRONLY), count(step=len(BLOCK))
    os.write(file, bytes(len(BLOCK) * STEPS * (WARM + ROUNDS)))
    os.fsync(file)

    def write() -> None:
        for _ in range(STEPS):
            os.pwrite(file, BLOCK, next(places))
            os.fsync(file)

    return write
