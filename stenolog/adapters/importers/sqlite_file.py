"""SQLite databases as files to import: opened for reading, with what is in their write-ahead log."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from stenolog.adapters.store import backups
from stenolog.adapters.store.schema import APPLICATION_ID
from stenolog.domain.errors import UnknownFormatError

SQLITE = b"SQLite format 3\0"
"""The first bytes of every SQLite database."""
MARK = slice(68, 72)
"""The bytes that hold the application id."""


@contextmanager
def sqlite_database(stream: BinaryIO) -> Iterator[sqlite3.Connection]:
    """Open the database of a stream for reading; text that is not UTF-8 gets U+FFFD for its bytes.

    Raises `UnknownFormatError` where it cannot be read, then or in the block, and for a log of stenolog.
    """
    with closing(_connect(stream)) as connection:
        try:
            if connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,):
                raise UnknownFormatError("it is a stenolog database: open it with --db, or `export` from it")
            yield connection
        except sqlite3.Error as error:
            raise UnknownFormatError(f"an SQLite database that cannot be read: {error}") from None


def is_log(first: bytes, stream: BinaryIO) -> bool:
    """Return whether a file with these first bytes is a log of stenolog."""
    if not first.startswith(SQLITE):
        return False
    if first[MARK] == APPLICATION_ID.to_bytes(4, "big"):
        return True
    with suppress(sqlite3.Error), closing(_connect(stream)) as connection:
        # Of a log that is open, the mark may stand in the write-ahead log alone.
        return bool(connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,))
    return False


def copy_database(stream: BinaryIO, path: Path) -> None:
    """Copy the database of a stream, as it is at one moment, into a file. Raises `StoreError`."""
    if isinstance(name := getattr(stream, "name", None), str):
        backups.copy_database(Path(name).absolute(), path)
        return
    with closing(_connect(stream)) as connection:
        backups.fill(connection, path)


def tables_in(stream: BinaryIO) -> list[str]:
    """Return the names of the tables and views in the database of a stream, sorted."""
    with sqlite_database(stream) as connection:
        names = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        return [name for (name,) in connection.execute(names)]


def _connect(stream: BinaryIO) -> sqlite3.Connection:
    """Connect to the file of a stream, so that its write-ahead log is read too, or to a copy of its bytes."""
    name = getattr(stream, "name", None)
    if isinstance(name, str):
        connection = sqlite3.connect(f"{Path(name).absolute().as_uri()}?mode=ro", uri=True)
    else:
        connection = sqlite3.connect(":memory:")
        content = stream.read()
        connection.deserialize(content[:18] + b"\1\1" + content[20:])  # in memory there is no write-ahead log
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    return connection
