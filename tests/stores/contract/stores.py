"""The stores that the contract runs on: how each is opened, by this process or another, and damaged."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import pytest

from stenolog.adapters.store.contract.appends import Sources
from stenolog.adapters.store.contract.application import LogApplication
from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.sqlite.application import SqliteLogApplication
from tests.postgres.server import EACH_VERSION, Server

Servers: TypeAlias = Callable[[str], Server]
Env: TypeAlias = Mapping[str, str]


def application(env: Env, edge: Sources | None = None) -> LogApplication:
    """Return a log opened as another process opens it: by settings in words."""
    if "POSTGRES_ADDRESS" in env:
        # Imported here: psycopg is an extra, and the contract runs on SQLite without it.
        from stenolog.adapters.store.postgres.application import PostgresLogApplication

        return PostgresLogApplication(dict(env), edge)
    return SqliteLogApplication(dict(env), edge)


class Store(ABC):
    """One log."""

    DEADLINE: ClassVar[str]
    """The setting that tells how long a call waits, in seconds."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._stack = ExitStack()

    @property
    def env(self) -> Env:
        """The settings that open the log in any process that can."""
        return self._env

    def open(self, edge: Sources | None = None, deadline: float = 10) -> LogRecorder:
        """Return a recorder of its own, as another process has it; it is closed with the store."""
        opened = application({**self._env, self.DEADLINE: str(deadline)}, edge)
        self._stack.callback(opened.close)
        self._stack.callback(opened.recorder.close)
        return opened.recorder

    @abstractmethod
    def change(self, statement: str, *values: Any) -> None:
        """Run a statement behind the recorder's back; its values stand at `?`."""

    @abstractmethod
    def held(self) -> AbstractContextManager[None]:
        """Keep everybody from writing, as another program can."""

    columns: ClassVar[Mapping[str, str]]
    """The columns of `stored_events` by the fields of a `Record`, and the `key` of the stream."""

    def damage(self, key: int, position: int, /, **fields: Any) -> None:
        """Change fields of an entry behind the recorder's back."""
        changes = ", ".join(f"{self.columns[field]} = ?" for field in fields)
        self.change(f"UPDATE stored_events SET {changes} WHERE {self._at}", *fields.values(), key, position)

    def remove(self, key: int, position: int) -> None:
        """Remove an entry behind the recorder's back."""
        self.change(f"DELETE FROM stored_events WHERE {self._at}", key, position)

    @property
    def _at(self) -> str:
        return f"{self.columns['key']} = ? AND {self.columns['position']} = ?"

    def close(self) -> None:
        """Close whatever was opened."""
        self._stack.close()


COLUMNS = {name: name for name in ("key", "position", "topic", "salt", "digest", "erased")}
COLUMNS |= {"id": "entry_id", "time": "at", "payload": "state"}


class SqliteFile(Store):
    """A log in a file."""

    DEADLINE = "SQLITE_LOCK_TIMEOUT"
    columns = COLUMNS | {"key": "originator_id", "position": "originator_version"}

    def __init__(self, folder: Path) -> None:
        self.path = folder / "talks.db"
        super().__init__({"SQLITE_DBNAME": str(self.path)})

    def change(self, statement: str, *values: Any) -> None:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.execute(statement, values)

    @contextmanager
    def held(self) -> Iterator[None]:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield


class SqliteMemory(Store):
    """A log in memory: all who open it have the same recorder, since nobody else can have it."""

    DEADLINE = SqliteFile.DEADLINE
    columns = SqliteFile.columns

    def __init__(self) -> None:
        super().__init__({"SQLITE_DBNAME": ":memory:"})
        self._opened: LogApplication | None = None

    def open(self, edge: Sources | None = None, deadline: float = 10) -> LogRecorder:
        if self._opened is None:
            self._opened = application(self._env, edge)
            self._stack.callback(self._opened.close)
        return self._opened.recorder

    def change(self, statement: str, *values: Any) -> None:
        assert self._opened is not None
        with self._opened.factory.datastore.writing() as connection:  # type: ignore[attr-defined]
            connection.execute(statement, values)

    def held(self) -> AbstractContextManager[None]:
        raise NotImplementedError("nobody else has a log in memory")


class Postgres(Store):
    """A log in a schema of its own on a server."""

    DEADLINE = "POSTGRES_TIMEOUT"
    columns = COLUMNS | {"key": "stream"}

    def __init__(self, address: str) -> None:
        self.address = address
        self._is_reusable = True
        super().__init__({"POSTGRES_ADDRESS": address})

    @property
    def env(self) -> Env:
        # Of a process that is killed, the last statement may come to its end later.
        self._is_reusable = False
        return self._env

    def empty(self) -> bool:
        """Remove all that is in the log; False where it is not as it was made."""
        if self._is_reusable:
            with self.transaction() as connection:
                connection.execute("; ".join(f"DELETE FROM {table}" for table in TABLES))
        return self._is_reusable

    def change(self, statement: str, *values: Any) -> None:
        self._is_reusable &= not statement.startswith("ALTER")
        with self.transaction() as connection:
            connection.execute(statement.replace("?", "%s").encode(), values or None)

    @contextmanager
    def held(self) -> Iterator[None]:
        with self.transaction() as connection:
            connection.execute("LOCK TABLE conversations, tracking, claims, blobs IN EXCLUSIVE MODE")
            yield

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Yield a connection of another program, in a transaction that is committed at the end."""
        import psycopg

        server, _, schema = self.address.rpartition("&schema=")
        with psycopg.connect(server) as connection:
            connection.execute(f"SET search_path TO {schema}".encode())
            yield connection


TABLES = (
    *("conversations", "stored_events", "history", "tracking", "claims", "drafts", "blobs", "pins"),
    "processes",
)
"""The tables of a log in PostgreSQL, without the one that tells its version."""
SPARE: defaultdict[Server, list[str]] = defaultdict(list)
"""The addresses of logs that are empty again, by their servers."""


@contextmanager
def reused(server: Server) -> Iterator[Postgres]:
    """Yield an empty log on a server; to empty one is faster than to make its tables."""
    with ExitStack() as stack:
        address = SPARE[server].pop() if SPARE[server] else stack.enter_context(server.schema())
        store = Postgres(address)
        with closing(store):
            yield store
        if store.empty():
            SPARE[server].append(address)
            stack.pop_all()  # the schema goes with its server


FILE, MEMORY = "sqlite file", "sqlite memory"
IMPLEMENTATIONS = (FILE, MEMORY, *EACH_VERSION)
"""The names of the stores; those of PostgreSQL's versions are those of its servers."""
SHARED: list[Any] = [
    pytest.param(name, marks=pytest.mark.skip("a log in memory is private to its process"))
    if name == MEMORY
    else name
    for name in IMPLEMENTATIONS
]
"""The stores that several processes can have."""
several_processes = pytest.mark.parametrize("store", SHARED, indirect=True)
"""Marks a test of logs that others can open."""


@contextmanager
def opened(name: str, folder: Path, postgres: Servers) -> Iterator[Store]:
    """Yield a new log in the store of that name; it goes with the block."""
    with ExitStack() as stack:
        store: Store
        match name:
            case "sqlite file":
                store = SqliteFile(folder)
            case "sqlite memory":
                store = SqliteMemory()
            case _:
                store = stack.enter_context(reused(postgres(name)))
        stack.callback(store.close)
        yield store
