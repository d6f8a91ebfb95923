"""Notifications of commits between processes: NOTIFY after a commit, LISTEN, and a poll each second.

A NOTIFY within an append's transaction would lock the whole server during its commit. So a thread of each
process sends one NOTIFY for all commits of some milliseconds, on its own connection.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import suppress

import psycopg

from stenolog.adapters.store.contract.notifier import CommitNotifier, started
from stenolog.domain.errors import StoreError

from .datastore import LogConnection, PostgresLogDatastore, turns_of

GATHER = 0.025
"""Seconds for which commits are gathered before others are notified."""
LOOK = 1.0
"""Seconds between two looks at the log with NOTIFY, which may get lost."""
LOOK_ALONE = 0.25
"""Seconds between two looks if no NOTIFY passes."""
LINGER = 5.0
"""Seconds after which the notifying thread ends, if there was nothing to send."""
DRAFTS = "drafts"
"""The payload of a NOTIFY where only drafts have grown: most processes need not look then."""
# What an append, a fork, a rename or a deletion changes, and a piece of a draft; each read from an index.
VERSION = """SELECT (SELECT max(notification) FROM {s}.stored_events),
    (SELECT max(number) FROM {s}.history), (SELECT max(fence * 1000000 + number) FROM {s}.drafts)"""


class Bell(CommitNotifier):
    """Caller of listeners soon after every process's commits; sometimes without one."""

    def __init__(self, store: PostgresLogDatastore) -> None:
        # The listening connection waits by itself.
        super().__init__(self._news, pause=0.0)
        self._store = store
        self._channel = f"stenolog_{turns_of(store.address.schema)}"
        self._has_news = threading.Condition()
        self._news_of: set[str] = set()
        self._is_closing = False
        self._teller: threading.Thread | None = None

    def ring(self, *, drafts: bool = False) -> None:
        """Notify of a commit, or of drafts: own listeners at once, others some ms later."""
        self.notify(drafts=drafts)
        if not self._store.address.notify:
            return
        with self._has_news:
            self._news_of.add(DRAFTS if drafts else "")
            if self._teller is None:
                teller = threading.Thread(target=self._tell, name="stenolog-bell", daemon=True)
                # The commit stands. Where no thread can be had, the others look by themselves.
                with suppress(StoreError):
                    started(teller, self._store.path)
                    self._teller = teller
            self._has_news.notify()

    def close(self) -> None:
        super().close()
        with self._has_news:
            teller, self._is_closing = self._teller, True
            self._has_news.notify()
        if teller is not None:
            teller.join()

    def _tell(self) -> None:
        """Send NOTIFY while there are commits to report."""
        connection: LogConnection | None = None
        try:
            while True:
                with self._has_news:
                    if not self._news_of and not self._is_closing:
                        self._has_news.wait(LINGER)
                    if not self._news_of:
                        self._teller = None
                        return
                    news_of, self._news_of = self._news_of, set()
                # A failure is no loss: the others look by themselves each second.
                try:
                    if connection is None:
                        connection = self._store.connect(self._store.address.listen)
                        connection.execute("SET synchronous_commit = off")
                    for what in news_of:
                        connection.execute(f"NOTIFY \"{self._channel}\", '{what}'".encode())
                except psycopg.Error:
                    if connection is not None:
                        connection.close()
                    connection = None
                if not self._is_closing:
                    time.sleep(GATHER)
        finally:
            if connection is not None:
                connection.close()

    def _news(self) -> Generator[int, None, None]:
        """Yield another number whenever the log may have changed."""
        count, connection, before = 0, None, None
        try:
            while True:
                try:
                    if connection is None:
                        connection, before = self._listen(), None
                    if not self._was_told(connection):
                        found = connection.run(VERSION).fetchone()
                        count, before = count + (found != before), found
                    else:
                        count += 1
                except psycopg.Error:
                    # Listeners meet the error themselves, when they read.
                    if connection is not None:
                        connection.close()
                    connection, count = None, count + 1
                    time.sleep(LOOK_ALONE)
                yield count
        finally:
            if connection is not None:
                connection.close()

    def _listen(self) -> LogConnection:
        connection = self._store.connect(self._store.address.listen)
        if self._store.address.notify:
            connection.execute(f'LISTEN "{self._channel}"'.encode())
        return connection

    def _was_told(self, connection: LogConnection) -> bool:
        """Wait for a commit's NOTIFY until the next poll; return whether one came.

        Those of drafts go to the listeners that asked for them.
        """
        if not self._store.address.notify:
            time.sleep(LOOK_ALONE)
            return False
        give_up = time.monotonic() + LOOK
        # In short waits, so that the thread ends soon after the log was closed.
        while not self._is_closing and time.monotonic() < give_up:
            news_of = {news.payload for news in connection.notifies(timeout=LOOK / 10, stop_after=1)}
            if DRAFTS in news_of:
                self.notify(drafts=True)
            if news_of - {DRAFTS}:
                return True
        return False
