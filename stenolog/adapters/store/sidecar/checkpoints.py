"""Checkpoints of folds in a disposable file beside the log.

They are stored in runs: a fold's states at `RUN` successive positions, the last one plain or, if long,
compressed, the others packed together. A fold takes at most some 200 bytes an entry, usually less than 50.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from hmac import compare_digest
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

from stenolog.adapters.store.contract.values import MEMORY
from stenolog.adapters.store.sqlite.file_safety import Seals
from stenolog.adapters.store.sqlite.statements.event_rows import compressed, decompressed

from .file import Sidecar

# With one state in 4,096 positions, a look at the past cost some 13 ms. At the head it costs 47 µs. One in 32
# would still have cost seven times the head, so a run has the state of every position.
RUN = 32
"""The number of positions in a run."""
# Neighbouring states are much alike: packed, all of a run take no more room than every fourth one alone.
SMALL = 2048
"""Bytes up to which a state is kept for each position, and bytes that a run's packed states may take."""
# Larger states are kept at fewer positions, so that the file stays in proportion to the log.
LIGHT = 16
"""Bytes an entry that larger states may take."""
PAGE = 64
"""Runs that are read at once."""
LAYOUT = 3
"""The `user_version` of the file; one of another layout begins anew."""
# In a page of 8192 bytes a usual run has room; a longer one takes pages of its own.
# Nothing is lost with the file, so no write waits for the disk.
PRAGMAS = ("synchronous = OFF", "secure_delete = ON")
PREPARE = (
    "PRAGMA page_size = 8192",
    "PRAGMA journal_mode = WAL",
    "BEGIN IMMEDIATE",
    "DROP TABLE IF EXISTS checkpoints",
    """CREATE TABLE checkpoints (
    stream INTEGER, fold TEXT, version TEXT, first INTEGER, last INTEGER, digest BLOB,
    changed INTEGER, state BLOB, size INTEGER, past BLOB, sum BLOB,
    PRIMARY KEY (stream, fold, version, first)
) WITHOUT ROWID""",
    f"PRAGMA user_version = {LAYOUT}",
    "COMMIT",
)
SELECT = """SELECT first, last, digest, changed, state, size, past, sum FROM checkpoints
    WHERE stream = ? AND fold = ? AND version = ?"""
GET = f"{SELECT} AND first <= ? ORDER BY first DESC LIMIT 1"
NEXT = f"{SELECT} AND first > ? ORDER BY first LIMIT {PAGE}"
NAMES = "SELECT DISTINCT fold FROM checkpoints WHERE stream = ? ORDER BY fold"
PUT = "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
THIN = """DELETE FROM checkpoints
    WHERE stream = ? AND fold = ? AND version = ? AND first >= ? AND first < ?"""
OUTDATED = "DELETE FROM checkpoints WHERE stream = ? AND fold = ? AND version <> ?"
FORGET = "DELETE FROM checkpoints WHERE stream = ? AND fold = ?"
LATEST = """SELECT fold, max(last) FROM checkpoints
    WHERE stream = ? AND fold BETWEEN ? AND ? || char(1114111) AND fold LIKE '%' || ? GROUP BY fold"""
DROP = "DELETE FROM checkpoints WHERE stream = ?"

WHOLE_LOG = 0
"""In the place of a stream, for what belongs to no single conversation."""

Row: TypeAlias = tuple[Any, ...]


class Checkpoint(NamedTuple):
    """A fold's state at a position, in a conversation that has this digest at `end`."""

    position: int
    state: bytes
    end: int
    digest: bytes


class CheckpointRun(NamedTuple):
    """A fold's states from its first change to `last`, where the conversation has this digest.

    `changes` are ascending positions with the state from there on.
    """

    last: int
    digest: bytes
    changes: tuple[tuple[int, bytes], ...]

    @property
    def first(self) -> int:
        return self.changes[0][0]

    def at(self, position: int) -> bytes | None:
        """Return the state at a position; None outside the run."""
        if not self.first <= position <= self.last:
            return None
        return next(state for changed, state in reversed(self.changes) if changed <= position)


class Checkpoints(Sidecar):
    """Checkpoints by stream, and a fold's name and version; thread-safe."""

    pragmas = PRAGMAS

    def __init__(self, path: str, seals: Seals | None = None) -> None:
        self.seals = seals or Seals()
        super().__init__(MEMORY if path == MEMORY else f"{path}-checkpoints", path)

    def prepare(self, connection: sqlite3.Connection) -> None:
        if connection.execute("PRAGMA user_version").fetchone() != (LAYOUT,):
            for statement in PREPARE:
                connection.execute(statement)

    def get(self, key: int, fold: str, version: str, upto: int) -> Checkpoint | None:
        """Return the last intact checkpoint at or before `upto`; None if there is none."""
        for row in self._select(GET, key, fold, version, upto):
            try:
                return _found(self._unsealed(row, key, fold, version), upto)
            except (TypeError, ValueError, zlib.error):
                # What does not unpack is damaged, and other runs of the stream may be as well.
                self.drop(key)
        return None

    def runs(self, key: int, fold: str, version: str) -> Iterator[CheckpointRun]:
        """Yield every intact run of a fold over a stream, in order."""
        after: int | None = -1
        while after is not None:
            rows = self._select(NEXT, key, fold, version, after)
            after = rows[-1][0] if len(rows) == PAGE else None
            for row in rows:
                with suppress(TypeError, ValueError, zlib.error):
                    yield _run(self._unsealed(row, key, fold, version))

    def names(self, key: int) -> list[str]:
        return [str(name) for (name,) in self._select(NAMES, key)]

    def put(self, key: int, fold: str, version: str, *runs: CheckpointRun, thin: bool = True) -> None:
        """Store runs. A large state replaces earlier ones of its stretch, if that is to be `thin`."""
        place = _key(key, fold, version)
        rows = [(*row, _sum(self.seals, place, *row)) for row in map(_row, runs)]
        self.work(lambda connection: _write(connection, (key, fold, version), rows, thin=thin))

    def latest(self, key: int, prefix: str, suffix: str = "") -> dict[str, int]:
        """Return the last position of each fold whose name begins so, and ends about so."""
        return dict(self._select(LATEST, key, prefix, prefix, suffix))

    def forget(self, key: int, fold: str) -> None:
        """Delete a fold's checkpoints of a stream."""
        self._select(FORGET, key, fold)

    def _unsealed(self, row: Row, key: int, fold: str, version: str) -> Row:
        """Return the row without its seal.

        Raises `ValueError` if this log did not write it here.
        """
        *rest, seal = row
        true = _sum(self.seals, _key(key, fold, version), *rest)
        # A state decides what an agent does next, and others may be able to write this file.
        if not isinstance(seal, bytes) or not compare_digest(true, seal):
            raise ValueError("not what was written")
        return tuple(rest)

    def drop(self, key: int) -> None:
        self._select(DROP, key)

    def erase_stream(self, key: int) -> None:
        """Delete a stream's checkpoints, leaving no byte in the file."""
        if self.path == MEMORY:
            self.drop(key)
        else:
            self.erase(DROP, key)

    def _select(self, statement: str, *values: object) -> list[Row]:
        return self.work(lambda connection: connection.execute(statement, values).fetchall()) or []


def _write(
    connection: sqlite3.Connection, key: tuple[int, str, str], rows: Iterable[Row], *, thin: bool
) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for row in rows:
        first, last, _, _, state, size, *_ = row
        connection.execute(PUT, (*key, *row))
        # Folded anew: by another release, or by a fold whose version has changed.
        if first <= 1:
            connection.execute(OUTDATED, key)
        stretch = interval_for(size or len(state))
        if thin and stretch > RUN:
            # Of a large state one is kept in each stretch: the newest takes the place of those before it.
            connection.execute(THIN, (*key, last - last % stretch, first))
    connection.execute("COMMIT")


def _row(run: CheckpointRun) -> Row:
    """Return the run's row, without its seal and states before a long last one."""
    changed, state = run.changes[-1]
    first, past = run.first, _packed(run.changes[:-1])
    if len(past) > SMALL:
        first, past = changed, b""
    return first, run.last, run.digest, changed, *compressed(state), past


def interval_for(size: int) -> int:
    """Return the interval between full states of this size that keeps the file proportional."""
    return RUN if size <= SMALL else 1 << (size // LIGHT).bit_length()


def _found(row: Row, upto: int) -> Checkpoint:
    """Return the state at `upto`, or at the run's end if the run ends before that."""
    _, last, digest, changed, stored, size, past = row
    state = _at(past, upto) if upto < changed else _plain(stored, size)
    return Checkpoint(min(upto, last), state, last, digest)


def _run(row: Row) -> CheckpointRun:
    _, last, digest, changed, stored, size, past = row
    return CheckpointRun(last, digest, (*_unpacked(past), (changed, _plain(stored, size))))


def _plain(stored: bytes, size: int | None) -> bytes:
    return stored if size is None else bytes(decompressed(stored, size))


def _key(key: int, fold: str, version: str) -> bytes:
    return f"{key}\n{fold}\n{version}".encode(errors="surrogatepass")


def _sum(
    seals: Seals,
    place: bytes,
    first: int,
    last: int,
    digest: bytes,
    changed: int,
    state: bytes,
    size: int | None,
    past: bytes,
) -> bytes:
    return seals.seal(place, b"%d\n%d\n%d\n%d" % (first, last, changed, size or 0), digest, past, state)


def _packed(changes: Sequence[tuple[int, bytes]]) -> bytes:
    if not changes:
        return b""
    positions, states = zip(*changes, strict=True)
    head = json.dumps((positions, tuple(map(len, states))))
    return zlib.compress(b"".join((head.encode(), b"\n", *states)), 1)


def _opened(past: bytes) -> tuple[list[int], list[int], bytes]:
    if not past:
        return [], [], b""
    head, _, states = zlib.decompress(past).partition(b"\n")
    positions, sizes = json.loads(head)
    return positions, sizes, states


def _at(past: bytes, position: int) -> bytes:
    positions, sizes, states = _opened(past)
    place = bisect_right(positions, position) - 1
    start = sum(sizes[:place])
    return states[start : start + sizes[place]]


def _unpacked(past: bytes) -> Iterator[tuple[int, bytes]]:
    positions, sizes, states = _opened(past)
    ends = accumulate(sizes)
    return ((at, states[end - size : end]) for at, size, end in zip(positions, sizes, ends, strict=True))
