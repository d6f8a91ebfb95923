"""Connections to a database file: one locked writer, and as many readers as needed."""

from __future__ import annotations

import itertools
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import get_args

from eventsourcing.sqlite import SQLiteCursor, SQLiteDatastore

from stenolog.adapters.store.contract.notifier import CommitNotifier
from stenolog.adapters.store.contract.values import DEADLINE, MEMORY, Synchronous
from stenolog.adapters.store.sqlite import file_locks, file_safety
from stenolog.adapters.store.sqlite.errors import RAISED, to_store_error
from stenolog.adapters.store.sqlite.file_locks import FileLock
from stenolog.adapters.store.sqlite.statements import event_rows, schema
from stenolog.domain.errors import StoreError, StoreTimeoutError

from . import durable_head, gate
from .group_commit import GroupCommit
from .transaction import OpenedFile, WalPreallocator, writing, written

# Holds some 30,000 entries.
CACHE_KB = 16_000
"""The page cache of a reader in KiB."""
# After a commit that puts the pages of an index in another order, SQLite looks at every cached page. So the
# writer, which soon needs few of them again, keeps to SQLite's 2,000 KiB.
WRITER_CACHE = "cache_spill = 14000"
"""The pages that a transaction may change before some are written to the write-ahead log early."""
# SQLite's own default: 1,000 pages of 4096 bytes.
WAL_BYTES = 4_000_000
"""The write-ahead log is moved into the file before it has grown to this."""
# A page has a head of 24 bytes there. The commits that come until it is moved take some pages more.
WAL_PAGES = (WAL_BYTES - 100_000) // (schema.PAGE_SIZE + 24)
# Shorter than the deadline: moving it can wait for the next time, and a delete must not wait for readers.
CHECKPOINT_MS = 2_000
"""Milliseconds that `checkpoint_wal` waits for readers."""
READER = (
    f"cache_size = -{CACHE_KB}",
    # A file from elsewhere may bring views or triggers that call functions.
    "trusted_schema = OFF",
    # Finds a damaged page when it is read, before its rows are used.
    "cell_size_check = ON",
)
WRITER = (
    *READER[1:],
    WRITER_CACHE,
    "foreign_keys = ON",
    # Deleted rows are overwritten with zeros, so that no deleted word stays in a free page.
    "secure_delete = ON",
    f"wal_autocheckpoint = {WAL_PAGES}",
    # A long reader lets the write-ahead log grow; a checkpoint cuts it back to this.
    f"journal_size_limit = {4 * WAL_BYTES}",
)


class SqliteLogDatastore(SQLiteDatastore):
    """The database of one log.

    `writing()`, `written(work)` and `reading()` are transactions; they raise only our errors, and wait at
    most `deadline` seconds. A database in memory has one shared connection. `commit_hooks` are called at the
    end of each writing transaction, as part of it.
    """

    def __init__(self, path: str, *, synchronous: str = "full", deadline: float = DEADLINE) -> None:
        if synchronous not in get_args(Synchronous):
            raise ValueError(f"synchronous: expected 'full' or 'normal', found {synchronous!r}")
        super().__init__(path, originator_id_type="text")
        self.path = path
        # Absolute, since the process may change its working directory.
        self.file = path if path == MEMORY else os.path.abspath(path)
        self.deadline = deadline
        self.synchronous = synchronous
        self.in_memory = path == MEMORY
        self.commit_notifier = CommitNotifier(None if self.in_memory else self._versions)
        self.commit_hooks: list[Callable[[sqlite3.Connection], None]] = []
        self._idle: deque[sqlite3.Connection] = deque()
        self.thread_lock = threading.Lock()
        self.file_lock = None if self.in_memory else FileLock(f"{self.file}-lock", self.file)
        # With "normal" a commit waits for no disk: room gains nothing, and a note could be ahead of the log.
        durable = synchronous == "full" and not self.in_memory
        self.wal_preallocator = WalPreallocator(f"{self.file}-wal", WAL_BYTES) if durable else None
        self.group = GroupCommit(self)
        # SQLite's connections must not be used after a fork, which `check` tells by this.
        self._process = os.getpid()
        # Until the file is open, so that `close` does nothing for a log that could not be opened.
        self._closed = True
        self.last_head = durable_head.NONE_YET
        self.keeps_note = durable
        # With "normal" the last entries may be lost anyway.
        self.opened_file = OpenedFile(path, self.file, is_checked_rarely=not durable)
        self.seal_key = b""
        # A restore waits while a process opens the log; SQLite's own locks show only once a page was
        # read.
        with nullcontext() if self.in_memory else gate.opening(self.file, deadline):
            self.writer = self._open()
        self._closed = False
        gate.note_open(self)

    writing, written = writing, written

    @property
    def is_writing(self) -> bool:
        """True if a thread of this process is writing right now."""
        return self.thread_lock.locked()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for reading. Finish each cursor within the block."""
        self.check()
        connection: sqlite3.Connection = self.writer
        held = False
        try:
            if self.in_memory:
                # One connection serves all threads here. For `map`, see `Transaction.begin`.
                (held,) = map(self.thread_lock.acquire, (True,), (self.deadline,))
                if not held:
                    raise self.timed_out()
            else:
                connection = self._borrow()
            # A cursor that is left open keeps the write-ahead log from being checkpointed.
            yield connection
        except RAISED as error:
            raise to_store_error(error, self.path) from error
        finally:
            if held:
                self.thread_lock.release()
            elif connection is not self.writer:
                self._put_back(connection)

    @contextmanager
    def transaction(self, *, commit: bool) -> Iterator[SQLiteCursor]:
        """Open a transaction and yield its cursor, for the `eventsourcing` library's code."""
        with self.writing() if commit else self.reading() as connection:
            yield SQLiteCursor(connection.cursor())

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Close every connection; the last one out checkpoints the write-ahead log."""
        # A datastore whose `__init__` raised is collected, too, and has no `_closed` then.
        if getattr(self, "_closed", True):
            return
        self._closed = True
        self.commit_notifier.close()
        # A forked child must not close SQLite's connections: that would release its parent's locks.
        if os.getpid() != self._process:
            return
        self.group.close()
        while self._idle:
            self._idle.pop().close()
        held = self.thread_lock.acquire(timeout=self.deadline)
        try:
            # Else a thread still writes: closing its connection under it would crash the process.
            if held:
                if self.wal_preallocator:
                    self.wal_preallocator.close()
                self.writer.close()
            if self.file_lock:
                self.file_lock.close()
        finally:
            if held:
                self.thread_lock.release()

    def _borrow(self) -> sqlite3.Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return self._guarded(self.connect)

    def _put_back(self, connection: sqlite3.Connection) -> None:
        # A deque's `append` and `pop` are atomic, so idle connections need no lock.
        self._idle.append(connection)
        # `close` has emptied the deque already, so a connection that comes back late is closed here.
        if self._closed:
            connection.close()

    def timed_out(self) -> StoreTimeoutError:
        """Return the error for a caller that has waited too long."""
        return StoreTimeoutError(f"{self.path}: waited {self.deadline} s for others that write")

    def check(self) -> None:
        """Raise `StoreError` if the log was closed, or opened before a fork of the process."""
        if self._closed:
            raise StoreError(f"{self.path}: the log was closed")
        if os.getpid() != self._process:
            raise StoreError(f"{self.path}: opened before a fork of the process; open it again after")

    def _guarded(self, connect: Callable[[], event_rows.Connection]) -> event_rows.Connection:
        try:
            return connect()
        except RAISED as error:
            raise to_store_error(error, self.path) from error

    def _open(self) -> event_rows.Connection:
        """Return the writer's connection to a file of ours and of this version."""
        note = None
        if not self.in_memory:
            file_safety.check_path(Path(self.file))
            # Before SQLite opens the files: it would replay a foreign write-ahead log, or take an empty
            # file as new.
            note = durable_head.check_files(self.file)
            # The unfinished backup of a killed process, which goes when the log is next opened.
            if os.path.exists(part := f"{self.file}{file_locks.PART}"):
                file_locks.remove_lock_file(part, beside=True)
            # SQLite says better what is wrong with the place.
            with suppress(OSError):
                file_safety.create_private(self.file)
            for part in ("-wal", "-shm"):
                file_safety.follow_permissions(f"{self.file}{part}", self.file, make=False)
        connection = self._guarded(lambda: self.connect((f"synchronous = {self.synchronous}", *WRITER)))
        try:
            self._prepare(connection, note)
            self._look_around(connection, note)
        except RAISED as error:
            connection.close()
            raise to_store_error(error, self.path) from error
        except BaseException:
            connection.close()
            # Ctrl-C may come just as the lock is given back.
            if self.file_lock:
                self.file_lock.close()
            raise
        return connection

    def _look_around(self, connection: sqlite3.Connection, note: durable_head.DurableHead | None) -> None:
        """Remember the opened file; note one that replaced the noted one."""
        self.seal_key = file_safety.seal_key(connection)
        if self.in_memory:
            return
        file = schema.id_of(connection)
        self.last_head = durable_head.newest(connection, file)
        self.opened_file.identify()
        # A restored file has another id: from now on the note must speak of this one.
        if note is not None and note.file != file:
            if self.file_lock and not self.file_lock.acquire(self.deadline):
                raise self.timed_out()
            try:
                # What was found may not be durable yet, so no entry is noted before the next commit.
                durable_head.write(self.file_lock, durable_head.NONE_YET._replace(file=file))
            finally:
                if self.file_lock:
                    self.file_lock.close()

    def _prepare(self, connection: sqlite3.Connection, note: durable_head.DurableHead | None) -> None:
        """Create or migrate the tables if needed; safe for several processes."""
        # One transaction for both looks: another process may be making the tables.
        connection.execute("BEGIN")
        version = schema.version_of(connection, self.path)
        schema.check_schema(connection, self.path)
        connection.execute("COMMIT")
        if note is not None:
            durable_head.check(self.file, connection, note)
        if version == schema.VERSION:
            return
        if self.file_lock and not self.file_lock.acquire(self.deadline):
            raise self.timed_out()
        try:
            # Before the first page is written, and before WAL: SQLite ignores it later.
            connection.execute(f"PRAGMA page_size = {schema.PAGE_SIZE}")
            self._write_ahead(connection)
            schema.migrate(connection, self.path)
        finally:
            if self.file_lock:
                self.file_lock.close()

    def _write_ahead(self, connection: sqlite3.Connection) -> None:
        """Switch to write-ahead logging. Raises `sqlite3.OperationalError` after the deadline."""
        # A reader elsewhere can refuse the switch for a moment, and SQLite does not wait for it.
        give_up = time.monotonic() + self.deadline
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.01)

    def connect(self, settings: Iterable[str] = READER) -> event_rows.Connection:
        """Return a new connection with our settings, by default for reading; the caller closes it."""
        # SQLite would join a new file of that name with the write-ahead log of the old one.
        self.opened_file.check()
        connection = sqlite3.connect(
            self.file if self.in_memory else file_safety.uri_of(Path(self.file)),
            uri=not self.in_memory,
            timeout=self.deadline,
            # Transactions are begun by us: sqlite3's own begin late, and not IMMEDIATE.
            isolation_level=None,
            # Connections go from thread to thread, but are used by one at a time.
            check_same_thread=False,
            factory=event_rows.Connection,
        )
        try:
            for setting in settings:
                connection.execute(f"PRAGMA {setting}")
        except BaseException:
            connection.close()
            raise
        return connection

    def checkpoint_wal(self) -> bool:
        """Move the write-ahead log into the file; return False if others are reading it."""
        if self.in_memory:
            return True
        return self.written(lambda: _checkpoint(self.writer, self.deadline))

    def _versions(self) -> Generator[int, None, None]:
        """Yield a value that changes with other connections' commits, and after failures."""
        # One connection for all looks: `data_version` is compared with an earlier one of the same
        # connection.
        connection: sqlite3.Connection | None = None
        try:
            for failures in itertools.count(1):
                try:
                    connection = connection or self._borrow()
                    while True:
                        yield int(connection.execute("PRAGMA data_version").fetchone()[0])
                # The log may have been closed, and its folder removed, since the caller's last look.
                except (sqlite3.Error, StoreError):
                    # Another value each time, so that the waiting reader reads, and meets the error
                    # itself.
                    yield -failures
        finally:
            if connection is not None:
                self._put_back(connection)


def _checkpoint(connection: sqlite3.Connection, deadline: float) -> bool:
    # Commit hooks begin one, and SQLite makes no checkpoint within a transaction.
    if connection.in_transaction:
        connection.execute("ROLLBACK")
    connection.execute(f"PRAGMA busy_timeout = {CHECKPOINT_MS}")
    try:
        # TRUNCATE, since frames that are in the file already still hold the words of deleted entries.
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(deadline * 1000)}")
    return not busy
