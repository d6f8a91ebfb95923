"""The tables `workflows` and `conversation_messages` in SQLite, PostgreSQL and MySQL.

An existing table is used unchanged; a missing one is created.
"""

from __future__ import annotations

import logging
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

from stenolog.errors import CallerError, TableError

LOGGER = logging.getLogger("stenolog.tables")
SHORT_TEXT = 65_535
"""The bytes of a TEXT in MySQL."""
MESSAGES, WORKFLOWS = "conversation_messages", "workflows"
COLUMNS = ("id", "workflowId", "role", "content", "agent", "createdAt", "cutOff")
ROLES = "'system', 'user', 'assistant'"
EARLIEST = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
LATEST = datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC)
"""The times that a TIMESTAMP of MySQL can hold."""
OWN = (
    # Its only row is changed at the beginning of a transaction, which takes the lock of every database.
    "CREATE TABLE IF NOT EXISTS stenolog_turn (id INT PRIMARY KEY, turn BIGINT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS stenolog_workflows (conversation BIGINT PRIMARY KEY, workflow BIGINT,
        position BIGINT NOT NULL, digest VARCHAR(64) NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS stenolog_messages (message BIGINT NOT NULL, conversation BIGINT NOT NULL,
        position BIGINT NOT NULL, PRIMARY KEY (conversation, position, message))""",
)


class Dialect(NamedTuple):
    """The differences of one database from the others."""

    driver: str
    quote: str
    hole: str
    returning: bool
    number: str
    role: str
    text: str
    time: str
    ending: str
    session: tuple[str, ...]
    written: Callable[[datetime], Any]


def _in_mysql(time: datetime) -> str:
    return min(max(time, EARLIEST), LATEST).strftime("%Y-%m-%d %H:%M:%S")


def _in_sqlite(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def _checked(column: str) -> str:
    return f"VARCHAR(9) CHECK ({column} IN ({ROLES}))"


DIALECTS = (
    Dialect(
        driver="sqlite3",
        quote='"',
        hole="?",
        returning=False,
        number="INTEGER PRIMARY KEY AUTOINCREMENT",
        role=_checked("role"),
        text="TEXT",
        time="TIMESTAMP",
        ending="",
        session=("PRAGMA foreign_keys = ON",),
        written=_in_sqlite,
    ),
    Dialect(
        driver="psycopg",
        quote='"',
        hole="%s",
        returning=True,
        number="SERIAL PRIMARY KEY",
        role=_checked("role"),
        text="TEXT",
        time="TIMESTAMPTZ",
        ending="",
        session=(),
        written=lambda time: time,
    ),
    Dialect(
        driver="pymysql",
        quote="`",
        hole="%s",
        returning=False,
        number="INT AUTO_INCREMENT PRIMARY KEY",
        role=f"ENUM({ROLES})",
        text="MEDIUMTEXT",  # a TEXT ends at 65,535 bytes, which a long report exceeds
        time="TIMESTAMP",
        ending=" ENGINE=InnoDB CHARACTER SET utf8mb4",
        session=("SET time_zone = '+00:00'",),
        written=_in_mysql,
    ),
)
DRIVERS = ", ".join(dialect.driver for dialect in DIALECTS)


class WorkflowDatabase:
    """The two tables on a DB-API connection without autocommit.

    Raises `CallerError` for other connections, and for a missing column.
    """

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        modules = {kind.__module__.partition(".")[0] for kind in type(connection).__mro__}
        known = [dialect for dialect in DIALECTS if dialect.driver in modules]
        if not known:
            raise CallerError(f"expected a connection of {DRIVERS}; found {type(connection)!r:.80}")
        self.dialect = known[0]
        self.raised: type[Exception] = sys.modules[self.dialect.driver].Error
        if _is_autocommit(connection):
            raise CallerError(
                "expected a connection that commits when it is told to, found one in autocommit"
            )
        self._columns: dict[str, dict[str, str]] = {}
        self._prepare()

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return a statement's rows; `?` is a value."""
        return self._run(statement, values)[0]

    def insert(self, table: str, **values: Any) -> int:
        """Insert a row, without columns that the table lacks; return its id."""
        columns = self._columns[table]
        given = {columns[name]: value for name, value in values.items() if name in columns}
        names = ", ".join(map(self._quoted, given))
        into = f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(given))})"
        if not given:
            into = f"INSERT INTO {table} {'() VALUES ()' if self.dialect.quote == '`' else 'DEFAULT VALUES'}"
        if self.dialect.returning:
            return int(self.run(f"{into} RETURNING {columns['id']}", *given.values())[0][0])
        return int(self._run(into, tuple(given.values()))[1])

    def column(self, name: str) -> str:
        """Return a column of `conversation_messages`, by its name there, in quotes. Raises `CallerError`."""
        columns = self._columns[MESSAGES]
        if name not in columns:
            raise CallerError(f"expected a column of {MESSAGES}, {', '.join(columns)}; found {name!r:.60}")
        return self._quoted(columns[name])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Open a transaction, exclusive among followers. Raises `TableError` if refused."""
        try:
            self.run("UPDATE stenolog_turn SET turn = turn + 1 WHERE id = 1")
            yield
            self.connection.commit()
        except self.raised as error:
            self._undo()
            raise TableError(f"{self.dialect.driver}: {' '.join(str(error).split())}") from error
        except BaseException:
            self._undo()
            raise

    def _undo(self) -> None:
        # Where the connection is lost, so is the transaction.
        with suppress(self.raised):
            self.connection.rollback()

    def _run(self, statement: str, values: Sequence[Any]) -> tuple[list[tuple[Any, ...]], Any]:
        cursor = self.connection.cursor()
        try:
            cursor.execute(statement.replace("?", self.dialect.hole), tuple(map(self._value, values)))
            rows = [tuple(row) for row in cursor.fetchall()] if cursor.description else []
            return rows, getattr(cursor, "lastrowid", None)
        finally:
            cursor.close()

    def _value(self, value: Any) -> Any:
        match value:
            case datetime():
                return self.dialect.written(value)
            case str():
                return value.replace("\0", "\ufffd")  # PostgreSQL takes no NUL
            case _:
                return value

    def _quoted(self, name: str) -> str:
        return f"{self.dialect.quote}{name}{self.dialect.quote}"

    def _prepare(self) -> None:
        try:
            for statement in self.dialect.session:
                self.run(statement)
            for statement in self._definitions():
                self.run(statement + self.dialect.ending)
            if not self.run("SELECT id FROM stenolog_turn"):
                self.run("INSERT INTO stenolog_turn VALUES (1, 0)")
            for table in (WORKFLOWS, MESSAGES):
                self._columns[table] = self._found(table)
            if "cutOff" not in self._columns[MESSAGES]:
                added = f"{self._quoted('cutOff')} BOOLEAN NOT NULL DEFAULT FALSE"
                self.run(f"ALTER TABLE {MESSAGES} ADD COLUMN {added}")
                self._columns[MESSAGES]["cutOff"] = "cutOff"
            self._warn_of_short_text()
            self.connection.commit()
        except self.raised as error:
            self._undo()
            raise TableError(f"{self.dialect.driver}: {' '.join(str(error).split())}") from error
        if missing := [name for name in COLUMNS if name not in self._columns[MESSAGES]]:
            raise CallerError(
                f"expected a table {MESSAGES} with {', '.join(COLUMNS)}; {missing[0]} is missing"
            )

    def _warn_of_short_text(self) -> None:
        """Warn of messages too long for an application's own column, before one stops a workflow."""
        if self.dialect.driver != "pymysql":
            return
        asked = """SELECT character_octet_length FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = ? AND column_name = 'content'"""
        for (most,) in self.run(asked, MESSAGES):
            if most is not None and most <= SHORT_TEXT:
                LOGGER.warning(
                    "%s.content holds %s bytes at most, and a longer message will stop its workflow: "
                    "ALTER TABLE %s MODIFY content MEDIUMTEXT NOT NULL",
                    *(MESSAGES, f"{most:,}", MESSAGES),
                )

    def _definitions(self) -> Iterator[str]:
        kind, at = self.dialect, self._quoted("createdAt")
        yield f"CREATE TABLE IF NOT EXISTS {WORKFLOWS} (id {kind.number}, name VARCHAR(255))"
        yield f"""CREATE TABLE IF NOT EXISTS {MESSAGES} (id {kind.number},
            {self._quoted("workflowId")} INT NOT NULL, role {kind.role} NOT NULL,
            content {kind.text} NOT NULL,
            agent VARCHAR(50), {at} {kind.time} DEFAULT CURRENT_TIMESTAMP,
            {self._quoted("cutOff")} BOOLEAN NOT NULL DEFAULT FALSE,
            FOREIGN KEY ({self._quoted("workflowId")}) REFERENCES {WORKFLOWS} (id))"""
        yield from OWN

    def _found(self, table: str) -> dict[str, str]:
        """Return a table's columns by the document's names; PostgreSQL may have lower case."""
        cursor = self.connection.cursor()
        cursor.execute(f"SELECT * FROM {table} WHERE 1 = 0")
        columns = [column[0] for column in cursor.description]
        cursor.fetchall()
        cursor.close()
        by_lower = {name.lower(): name for name in columns}
        wanted = (*COLUMNS, "name")
        known = {name: by_lower[name.lower()] for name in wanted if name.lower() in by_lower}
        return dict(zip(columns, columns, strict=True)) | known


def _is_autocommit(connection: Any) -> bool:
    match connection:
        case sqlite3.Connection():
            return connection.isolation_level is None or getattr(connection, "autocommit", False) is True
        case object(get_autocommit=asked):  # PyMySQL
            return bool(asked())
        case _:
            return connection.autocommit is True
