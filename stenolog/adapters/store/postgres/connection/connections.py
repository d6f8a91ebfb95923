"""A process's connections to a log: opened on demand, kept for the next call, or dropped.

The library's pool connects in its own threads. A caller then notices an absent server only by a timeout, and
meets one dead connection after another. Here callers connect themselves, and the first dead connection closes
the idle ones.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from .errors import ConnectionsInUse, is_lost

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
