"""The door for foreign bytes: files opened, decompressed and read as SQLite, within budgets.

Only regular files are opened. Content may be `RATIO` times the file's size, or `LEAST` bytes. Of a database
only ordinary tables are read, by our statements, in steps bounded by its size.
"""

from __future__ import annotations

import importlib
import os
import sqlite3
import stat
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from io import BytesIO
from itertools import chain
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import Any, BinaryIO, cast

from stenolog.adapters.store.sqlite import copies
from stenolog.adapters.store.sqlite.statements.schema import APPLICATION_ID
from stenolog.domain.errors import MissingExtraError, UnknownFormatError

MIB = 1024 * 1024
LEAST = 64 * MIB
"""Bytes that any file may be decompressed to."""
RATIO = 200
"""A larger file may be decompressed to this many times its size."""
LARGEST_WINDOW = 128 * MIB
"""The largest window of a Zstandard frame: more needs `--long` to decompress."""
LARGEST_VALUE = 128 * MIB
"""Bytes of the largest value in a database."""
FEWEST_STEPS = 1_000_000
"""Steps of SQLite's machine that any database may take; a larger one `RATIO` for each byte."""
STEPS_OF_SCHEMA = 300_000
"""Steps in which the schema of a database has to be read: some 30,000 tables and indexes."""
MOST_TABLES = 1_000
ZSTD = b"\x28\xb5\x2f\xfd"
"""The first bytes of a Zstandard frame."""
GZIP = b"\x1f\x8b\x08"
"""The first bytes of a gzip member."""
SQLITE = b"SQLite format 3\0"
"""The first bytes of every SQLite database."""
MARK = slice(68, 72)
"""The bytes of a database that hold the application id."""
_GZIP_BITS = 16 + zlib.MAX_WBITS
_CHUNK = MIB
_STEPS = 1_000
_SCHEMA = frozenset(("sqlite_master", "sqlite_schema"))
_ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_TRANSACTION)
_ASKED = frozenset(("application_id", "quick_check", "table_info", "table_xinfo"))
_HARMLESS = ("ok", "NULL value in", "NUMERIC value in", "TEXT value in", "non-unique entry")
"""The beginnings of what SQLite finds in tables that can be read to their end."""
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: LARGEST_VALUE,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: MIB,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 10,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}


class Budget:
    """The number of bytes that a file of some size may yield."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._most = self._left = max(LEAST, RATIO * size)

    def spend(self, count: int) -> None:
        """Take bytes from the budget. Raises `UnknownFormatError` if it has fewer."""
        self._left -= count
        if self._left < 0:
            raise UnknownFormatError(
                f"expected at most {self._most // MIB} MiB in a file of {self.size:,} bytes, found more"
            )


@contextmanager
def regular_file(path: Path, buffer: int = -1) -> Iterator[BinaryIO]:
    """Open a file to read. Raises `UnknownFormatError` for a pipe or device, without waiting."""
    with open(path, "rb", buffer, opener=_without_waiting) as stream:
        mode = os.fstat(stream.fileno()).st_mode
        if not stat.S_ISREG(mode):
            kinds = {stat.S_IFIFO: "a named pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
            found = kinds.get(stat.S_IFMT(mode), "something else")
            raise UnknownFormatError(f"expected a regular file, found {found}")
        yield stream


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


@contextmanager
def decompressed(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Yield a stream's content: decompressed, or the stream itself.

    A truncated file yields what comes before the cut. Raises `UnknownFormatError` for content beyond the
    budget, `MissingExtraError` without the package for Zstandard.
    """
    stream.seek(0)
    first = stream.read(len(ZSTD))
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    if not first.startswith((ZSTD, GZIP)):
        yield stream
        return
    budget = Budget(size)
    pieces = from_zstd(stream) if first == ZSTD else _from_gzip(stream)
    begins = next(pieces, b"")
    # With a name SQLite can open it; without one a killed process leaves nothing behind.
    temporary: Any = NamedTemporaryFile if begins.startswith(SQLITE) else TemporaryFile
    with temporary(prefix="stenolog-") as content:
        for piece in chain([begins], pieces):
            budget.spend(len(piece))
            content.write(piece)
        content.flush()
        stream.seek(0)
        content.seek(0)
        yield cast("BinaryIO", content)


def _from_gzip(stream: BinaryIO) -> Iterator[bytes]:
    """Yield all members' content in bounded pieces, as far as it decompresses."""
    member = zlib.decompressobj(_GZIP_BITS)
    while chunk := stream.read(_CHUNK):
        while chunk:
            try:
                yield member.decompress(chunk, _CHUNK)
            except zlib.error:
                return
            chunk = member.unused_data or member.unconsumed_tail
            if member.eof:
                member = zlib.decompressobj(_GZIP_BITS)


def from_zstd(stream: BinaryIO) -> Iterator[bytes]:
    """Yield all frames' content: each append to a file adds a frame."""
    try:
        zstd = importlib.import_module("compression.zstd")  # part of Python from 3.14 on
    except ModuleNotFoundError:
        try:
            zstd = importlib.import_module("zstandard")
        except ModuleNotFoundError:
            raise MissingExtraError("zstd", "zstandard") from None
        decompressor = zstd.ZstdDecompressor(max_window_size=LARGEST_WINDOW)
        packed = decompressor.stream_reader(stream, read_across_frames=True, closefd=False)
    else:
        largest = LARGEST_WINDOW.bit_length() - 1
        packed = zstd.open(stream, options={zstd.DecompressionParameter.window_log_max: largest})
    with suppress(EOFError, zstd.ZstdError):
        while piece := packed.read(_CHUNK):
            yield piece


class _Rows(sqlite3.Cursor):
    """A cursor whose rows count against their database's budget."""

    def __next__(self) -> Any:
        row = super().__next__()
        values = row.values() if isinstance(row, dict) else row
        paid = sum(len(value) for value in values if isinstance(value, str | bytes))
        cast("ForeignDatabase", self.connection).budget.spend(paid)
        return row

    def fetchone(self) -> Any:
        return next(self, None)

    def fetchall(self) -> list[Any]:
        return list(self)


class ForeignDatabase(sqlite3.Connection):
    """A connection to another program's database, for reading named tables."""

    budget: Budget
    _left = STEPS_OF_SCHEMA
    """Steps that are left."""

    def guard(self, tables: frozenset[str]) -> None:
        """Allow only reads of these tables, in steps bounded by size."""
        for limit, most in _LIMITS.items():
            self.setlimit(limit, most)
        for setting in (
            "trusted_schema = OFF",
            "cell_size_check = ON",
            "query_only = ON",
            "mmap_size = 0",
            "ignore_check_constraints = ON",
        ):
            self.execute(f"PRAGMA {setting}")
        self.text_factory = lambda text: text.decode("utf-8", "replace")
        self.set_authorizer(partial(_allow, tables | _SCHEMA))
        self.set_progress_handler(self._tick, _STEPS)
        self.execute("SELECT count(*) FROM sqlite_master").fetchone()
        self._left = FEWEST_STEPS + RATIO * self.budget.size

    def plain_bytes(self, content: bytes) -> bytes:
        """Return a value's content, decompressed if needed, up to a cut.

        Raises as `decompressed`.
        """
        if not content.startswith((ZSTD, GZIP)):
            return content
        made = bytearray()
        for piece in (from_zstd if content.startswith(ZSTD) else _from_gzip)(BytesIO(content)):
            self.budget.spend(len(piece))
            made += piece
        return bytes(made)

    @contextmanager
    def at_one_moment(self) -> Iterator[None]:
        """Read as of one moment in the block; after it, the database's own program can write again."""
        self.execute("BEGIN")
        try:
            yield
        finally:
            self.rollback()

    @property
    def is_spent(self) -> bool:
        return self._left < 0

    def _tick(self) -> bool:
        self._left -= _STEPS
        return self.is_spent

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        return self.cursor(_Rows).execute(sql, parameters)


def _allow(
    tables: frozenset[str], action: int, what: str | None, _: str | None, _in: str | None, source: str | None
) -> int:
    """Return whether SQLite may do what a statement or a view asks."""
    asked = (what or "").lower()
    allowed = source is None and (
        action in _ALLOWED
        or (action == sqlite3.SQLITE_READ and asked in tables)
        or (action == sqlite3.SQLITE_PRAGMA and asked in _ASKED)
    )
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


@contextmanager
def sqlite_database(stream: BinaryIO, *tables: str) -> Iterator[ForeignDatabase]:
    """Open a stream's database to read these tables, if present, and no others.

    Text that is not UTF-8 gets U+FFFD. Raises `UnknownFormatError`, then or in the block, for an unreadable
    database or one that yields more than its size allows; for a view, virtual table, generated column or
    damaged table of that name; and for a log of stenolog.
    """
    with closing(_connect(stream)) as connection:
        try:
            connection.guard(frozenset(map(str.lower, tables)))
            if connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,):
                raise UnknownFormatError("it is a stenolog database: open it with --db, or `export` from it")
            for table in tables:
                _check(connection, table)
            yield connection
        except sqlite3.Error as error:
            found = "it takes more steps than one of its size may" if connection.is_spent else error
            raise UnknownFormatError(f"an SQLite database that cannot be read: {found}") from None


def dict_row(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> dict[str, Any]:
    """Return a row by column names."""
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


def _check(connection: ForeignDatabase, table: str) -> None:
    """Raise `UnknownFormatError` unless the name is an ordinary table with sound pages."""
    query = "SELECT type, sql FROM sqlite_master WHERE name = ? COLLATE NOCASE AND type IN ('table', 'view')"
    found = connection.execute(query, (table,)).fetchall()
    if not found:
        return
    ((kind, statement),) = found[:1]
    quoted = _quoted(table)
    if not _is_ordinary(kind, statement) or len(found) > 1:
        reason = "a view" if kind == "view" else "no ordinary table"
    elif any(column[-1] in (2, 3) for column in connection.execute(f"PRAGMA table_xinfo({quoted})")):
        reason = "a table with a generated column"
    elif damage := [
        said
        for (said,) in connection.execute(f"PRAGMA quick_check({quoted})")
        if not str(said).startswith(_HARMLESS)
    ]:
        reason = f"damaged ({' '.join(str(damage[0]).split()):.200})"
    else:
        return
    raise UnknownFormatError(f"an SQLite database that cannot be read: {table} is {reason}")


def _is_ordinary(kind: str, statement: object) -> bool:
    return kind == "table" and str(statement).upper().startswith("CREATE TABLE ")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


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
    """Copy a consistent state of a stream's database into a file. Raises `StoreError`."""
    if isinstance(name := getattr(stream, "name", None), str):
        copies.copy_database(Path(name).absolute(), path)
        return
    with closing(_connect(stream)) as connection:
        copies.fill(connection, path)


def tables_in(stream: BinaryIO) -> dict[str, frozenset[str]]:
    """Return a database's tables and views, sorted, with ordinary tables' columns.

    Raises as `sqlite_database`.
    """
    with sqlite_database(stream) as connection:
        query = "SELECT name, type, sql FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        found = connection.execute(query).fetchall()
        if len(found) > MOST_TABLES:
            raise UnknownFormatError(f"expected at most {MOST_TABLES:,} tables, found {len(found):,}")
        return {
            name: _columns(connection, name) if _is_ordinary(kind, statement) else frozenset()
            for name, kind, statement in found
        }


def _columns(connection: ForeignDatabase, table: str) -> frozenset[str]:
    # Not to be asked of a view: to tell its columns, SQLite goes through all that it is made of.
    return frozenset(column[1] for column in connection.execute(f"PRAGMA table_info({_quoted(table)})"))


def _size_of(stream: BinaryIO) -> int:
    if isinstance(name := getattr(stream, "name", None), str):
        return sum(file.stat().st_size for file in (Path(name), Path(f"{name}-wal")) if file.is_file())
    at = stream.tell()
    size = stream.seek(0, os.SEEK_END)
    stream.seek(at)
    return size


def _connect(stream: BinaryIO) -> ForeignDatabase:
    name = getattr(stream, "name", None)
    has_name = isinstance(name, str)
    if has_name:
        _check_beside(os.path.realpath(str(name)))
    place = f"{Path(str(name)).absolute().as_uri()}?mode=ro" if has_name else ":memory:"
    connection = sqlite3.connect(place, uri=has_name, factory=ForeignDatabase)
    connection.budget = Budget(_size_of(stream))
    if not has_name:
        stream.seek(0)
        content = stream.read()
        connection.deserialize(content[:18] + b"\1\1" + content[20:])  # in memory there is no write-ahead log
    return connection


def _check_beside(name: str) -> None:
    """Raise `UnknownFormatError` for a pipe or link at a path that SQLite opens itself."""
    for beside in (f"{name}-journal", f"{name}-wal", f"{name}-shm"):
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.lstat(beside).st_mode):
                raise UnknownFormatError(f"expected a regular file beside it, found {Path(beside).name}")
