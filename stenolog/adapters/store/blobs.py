"""Large or repeated content, kept once by its sha256."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256

from stenolog.domain.errors import BlobNotFoundError

from .database import LogDatastore
from .pins import Pins


class Blobs(Mapping[str, bytes]):
    """The blobs of a log by their sha256 (64 hexadecimal digits), as a mapping that can be added to.

    `blobs[sha]` raises `BlobNotFoundError` (a KeyError) for one that is not there, or no longer whole.
    """

    def __init__(self, datastore: LogDatastore) -> None:
        self._datastore = datastore
        self.pins = Pins("" if datastore.in_memory else f"{datastore.file}-lock", datastore.file)
        """Those that this log has put and that no entry of it names yet."""

    def put(self, content: bytes) -> str:
        """Keep the content, unless it is there already; its sha256.

        Put it before each append that names it: a blob that no entry names, and that no living process has
        put for an entry still to come, is removed by `Log.collect`.
        """
        return self.put_all([content])[0]

    def put_all(self, contents: Iterable[bytes]) -> list[str]:
        """Store several blobs in one transaction and return their sha256 names."""
        named = [(sha256(content).hexdigest(), content) for content in contents]
        self.pins.add(sha for sha, _ in named)
        with self._datastore.writing() as connection:
            insert(connection, named)
        return [sha for sha, _ in named]

    def __getitem__(self, sha: str) -> bytes:
        with self._datastore.reading() as connection:
            row = connection.execute("SELECT bytes FROM blobs WHERE sha256 = ?", (_key(sha),)).fetchone()
        if row is None:
            raise BlobNotFoundError(f"{self._datastore.path}: no blob with the sha256 {sha}")
        content = bytes(row[0])
        if sha256(content).hexdigest() != sha:
            raise BlobNotFoundError(f"{self._datastore.path}: the blob {sha} is damaged")
        return content

    def __contains__(self, sha: object) -> bool:
        with self._datastore.reading() as connection:
            found = connection.execute("SELECT 1 FROM blobs WHERE sha256 = ?", (_key(sha),)).fetchone()
        return found is not None

    def __iter__(self) -> Iterator[str]:
        with self._datastore.reading() as connection:
            rows = connection.execute("SELECT sha256 FROM blobs ORDER BY rowid").fetchall()
        return iter([digest.hex() for (digest,) in rows])

    def __len__(self) -> int:
        with self._datastore.reading() as connection:
            (count,) = connection.execute("SELECT count(*) FROM blobs").fetchone()
        return int(count)


def insert(connection: sqlite3.Connection, named: Iterable[tuple[str, bytes]]) -> None:
    """Keep blobs, given with their sha256, unless they are there already."""
    rows = ((bytes.fromhex(sha), content) for sha, content in named)
    connection.executemany("INSERT OR IGNORE INTO blobs (sha256, bytes) VALUES (?, ?)", rows)


def _key(sha: object) -> bytes | None:
    """The stored form of a hash; None, which nothing has, for what is no lowercase sha256."""
    if not isinstance(sha, str) or len(sha) != 64 or sha != sha.lower():
        return None
    try:
        return bytes.fromhex(sha)
    except ValueError:
        return None
