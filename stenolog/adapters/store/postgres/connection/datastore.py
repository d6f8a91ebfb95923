"""Connections to one log's database: a pool, transactions in turns, lost connections.

    method      transaction         if the connection is lost   errors
    read        none                done again                  ours
    snapshot    one, reads only     done again                  ours
    write       one                 done again: idempotent      ours
    repeat      one, with `turns`   done again with `again`     ours
    statement   its own             done again with `again`     ours
    once        the caller's        raises                      psycopg's

`again` says that an earlier attempt may be committed: look before writing. None rings the bell; whoever
appends, erases or changes a conversation does it afterwards.

A *turn* is an advisory lock on a conversation, or on the log's history (`HISTORY`), until the transaction's
end. One rule orders notification ids (see `followed`): before it writes anything, a transaction takes the
turns of all conversations that it appends to.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from inspect import signature
from typing import Any, Generic, TypeVar
from zlib import crc32

import psycopg
from eventsourcing.postgres import PostgresDatastore
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from stenolog.domain.errors import OperationalError, StoreError

from . import schema
from .address import Address
from .errors import RAISED, ConnectionsInUse, is_lost, may_be_repeated, to_store_error

T = TypeVar("T")
HISTORY = 0
"""The turn of a writer that begins, forks, renames, archives, deletes or erases: it writes to `history`."""
# In one statement, and in order, so that no two transactions wait for each other.
TURNS = """SELECT pg_advisory_xact_lock({class}, turn) FROM (
    SELECT DISTINCT key::int AS turn FROM unnest(%(turns)s::bigint[]) AS key
    ORDER BY turn OFFSET 0) AS turns"""
HAS_TIMEOUT = "timeout" in signature(psycopg.Connection.wait).parameters
"""True if this release of the driver can wait for a limited time."""
LATER = 2.0
"""Seconds after the deadline of the server when the client ends a statement."""
PAUSE = 0.05
"""Seconds before another attempt with a new connection; doubled each time, up to a second."""


class LogConnection(psycopg.Connection[tuple[Any, ...]]):
    """A log's connection; `{s}` in a statement is its schema, `{class}` that of its turns."""

    schema: str = ""
    placed: int = 0
    """The number of entries that the transaction has written so far."""
    patience: float | None = None
    """Seconds after which a server that does not answer counts as away."""

    def run(self, statement: str, values: Any = None) -> psycopg.Cursor[tuple[Any, ...]]:
        """Execute a statement; its rows come in binary form."""
        return self.execute(_qualified(statement, self.schema), values, binary=True)

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Wait for the server as the driver does, but not for ever."""
        if not HAS_TIMEOUT:
            return super().wait(gen, interval)
        if timeout is not None or self.patience is None:
            return super().wait(gen, interval, timeout)
        give_up = time.monotonic() + self.patience
        try:
            return super().wait(gen, interval, self.patience)
        except psycopg.OperationalError:
            if time.monotonic() >= give_up:
                # The answer to this statement must not be taken for that to the next.
                self.pgconn.finish()
            raise


@cache
def _qualified(statement: str, schema: str) -> bytes:
    # In each statement, and not by `search_path`: behind a pooler a session's settings are others', too.
    return statement.replace("{s}", f'"{schema}"').replace("{class}", str(turns_of(schema))).encode()


def turns_of(schema: str) -> int:
    """Return the class of advisory locks that are turns: each log in a database has its own."""
    return crc32(schema.encode()) & 0x7FFFFFFF


class PostgresLogDatastore(PostgresDatastore):
    """The database of one log; `read` and `write` raise only our errors.

    `deadline`: seconds that a call waits at most, for others and an absent server. `base` is below all
    notification ids, `id` the log's, `seal_key` its secret.
    """

    def __init__(
        self, address: Address, *, deadline: float, synchronous: str = "full", make: bool = True
    ) -> None:
        # The library's pool is made, but never opened: its connections give other rows.
        super().__init__("", "", "", "", "", originator_id_type="text", schema=address.schema)
        self.address = address
        self.path = address.shown
        self.deadline = deadline
        self._synchronous = synchronous
        self._process = os.getpid()
        self._closed = False
        self._settings: dict[str, Any] = {
            "autocommit": True,
            "row_factory": tuple_row,
            "application_name": "stenolog",
            # A pooler gives each transaction another session, which knows no prepared statement.
            "prepare_threshold": None if address.pooled else 2,
        }
        # At once, so that a wrong address is told before anything waits for its server.
        try:
            with self.connect() as connection:
                found = schema.opened(connection, address.schema, self.path, make=make)
        except RAISED as error:
            raise to_store_error(error, self.path) from error
        self.version, self.id, self.base, self.seal_key = found
        self._connections: Connections[LogConnection] = Connections(self._connected, address.pool)

    def connect(self, conninfo: str = "", timeout: float | None = None) -> LogConnection:
        """Return a connection that the caller closes. Raises `psycopg.Error`.

        `timeout`: seconds to wait for the server; by default the deadline.
        """
        wait = self.deadline if timeout is None else timeout
        connection = LogConnection.connect(
            conninfo or self.address.conninfo, connect_timeout=max(2, math.ceil(wait)), **self._settings
        )
        try:
            self._configure(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connected(self, timeout: float) -> LogConnection:
        connection = self.connect(timeout=timeout)
        try:
            # A dump may have been restored in another cluster under this address. A role that only reads
            # leaves the base to one that writes.
            with suppress(psycopg.errors.InsufficientPrivilege):
                self.base = schema.raise_base(connection, self.address.schema)
        except BaseException:
            connection.close()
            raise
        return connection

    def _configure(self, connection: LogConnection) -> None:
        connection.schema = self.address.schema
        # The server ends a statement at the deadline; where no word comes from it, the client does.
        connection.patience = self.deadline + LATER
        if self.address.pooled:
            return
        wait = int(self.deadline * 1000)
        # A session that stands still within a transaction would keep followers from going on.
        connection.execute(
            f"SET statement_timeout = {wait}; SET lock_timeout = {wait}; "
            f"SET idle_in_transaction_session_timeout = {wait}"
            + ("; SET synchronous_commit = off" if self._synchronous == "normal" else "")
        )

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        # A forked child must leave its parent's connections alone.
        if os.getpid() == getattr(self, "_process", 0) and hasattr(self, "_connections"):
            self._connections.close()

    def check(self) -> None:
        """Raise `StoreError` if the log was closed, or opened before a fork of the process."""
        if self._closed:
            raise StoreError(f"{self.path}: the log was closed")
        if os.getpid() != self._process:
            raise StoreError(f"{self.path}: opened before a fork of the process; open it again after")

    def read(self, work: Callable[[LogConnection], T]) -> T:
        """Run reading work; each statement sees what was committed when it began."""
        return self._with_connection(work)

    def write(self, work: Callable[[LogConnection], T]) -> T:
        """Run idempotent work in a transaction, and commit it."""
        return self.repeat(lambda connection, _: work(connection))

    def repeat(
        self, work: Callable[[LogConnection, bool], T], turns: Collection[int] = (), *, again: bool = False
    ) -> T:
        """Run `work(connection, again)` in a transaction that took these turns first, and commit it."""
        may_stand = again

        def transaction(connection: LogConnection) -> T:
            nonlocal may_stand
            connection.placed = 0
            with connection.transaction():
                if turns:
                    take_turns(connection, turns)
                result = work(connection, may_stand)
                may_stand = True
            return result

        with self._told_if_written(lambda: may_stand):
            return self._with_connection(transaction)

    def statement(self, work: Callable[[LogConnection, bool], T]) -> T:
        """Run `work(connection, again)`, which writes by one statement: no round trips for a transaction."""
        may_stand = False

        def run(connection: LogConnection) -> T:
            nonlocal may_stand
            again, may_stand = may_stand, True
            return work(connection, again)

        with self._told_if_written(lambda: may_stand):
            return self._with_connection(run)

    @contextmanager
    def _told_if_written(self, may_stand: Callable[[], bool]) -> Iterator[None]:
        """Say in the error of a lost connection that all may be written."""
        try:
            yield
        except OperationalError as error:
            if may_stand() and is_lost(error.__cause__):
                raise StoreError(
                    f"{error}. The connection was lost during a commit, so it may have been written: "
                    "look before you do it again; an append with the same id finds itself"
                ) from error
            raise

    def once(self, work: Callable[[LogConnection], T]) -> T:
        """Do something with a connection. Raises `psycopg.Error`, unlike the others."""
        self.check()
        with self._connections.borrow(self.deadline) as connection:
            connection.placed = 0
            return work(connection)

    def snapshot(self, work: Callable[[LogConnection], T]) -> T:
        """Do what only reads, all of it as of one moment."""

        def transaction(connection: LogConnection) -> T:
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                return work(connection)

        return self._with_connection(transaction)

    def _with_connection(self, work: Callable[[LogConnection], T]) -> T:
        self.check()
        give_up, pause = time.monotonic() + self.deadline, PAUSE
        # A process that was frozen finds its connection dead when its deadline has passed.
        for attempt in itertools.count():
            try:
                with self._connections.borrow(max(0.001, give_up - time.monotonic())) as connection:
                    return work(connection)
            except RAISED as error:
                self.check()
                is_late = attempt > 0 and time.monotonic() + pause >= give_up
                if is_late or not may_be_repeated(error):
                    raise to_store_error(error, self.path) from error
            # The first time the server may be there all the same.
            if attempt:
                time.sleep(pause)
                pause = min(1.0, pause * 2)
        raise AssertionError("it is tried until the deadline")


def take_turns(connection: LogConnection, keys: Collection[int]) -> None:
    """Wait for turns of conversations, by key, and of the history."""
    connection.run(TURNS, {"turns": locks_of(keys)})


def locks_of(keys: Iterable[int]) -> list[int]:
    """Return the numbers of these turns' locks."""
    return [key & 0x7FFFFFFF for key in keys]


C = TypeVar("C", bound="psycopg.Connection[Any]")


class Connections(Generic[C]):
    """At most `most` connections, each used by one call at a time."""

    def __init__(self, connect: Callable[[float], C], most: int) -> None:
        self._connect = connect
        self._most = most
        self._free = threading.Semaphore(most)
        # The one used last is used next, so that the others may rest: a deque pops and appends atomically.
        self._idle: deque[C] = deque()
        self._is_closed = False

    @contextmanager
    def borrow(self, timeout: float) -> Iterator[C]:
        """Lend a connection; wait at most so many seconds for a free one and the server.

        Raises `psycopg.Error`.
        """
        if not self._free.acquire(timeout=timeout):
            raise ConnectionsInUse(f"all {self._most} connections of this process were in use")
        try:
            connection = self._next(timeout)
            try:
                yield connection
            except psycopg.Error as error:
                # The idle ones were made to the same server.
                if is_lost(error):
                    self.drain()
                raise
            finally:
                self._put_back(connection)
        finally:
            self._free.release()

    def drain(self) -> None:
        """Close the connections that no call has."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                return  # another thread was first
            connection.close()

    def close(self) -> None:
        """Close every connection, those in use when their call ends."""
        self._is_closed = True
        self.drain()

    def _next(self, timeout: float) -> C:
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect(timeout)

    def _put_back(self, connection: C) -> None:
        # Ctrl-C may have come within a statement, or between two of a transaction.
        if connection.pgconn.transaction_status != TransactionStatus.IDLE:
            connection.close()
            return
        self._idle.append(connection)
        if self._is_closed:
            self.drain()
