"""The lease of a process: a row that it renews, by the database's clock.

A process whose row is older than `LEASE` seconds counts as dead. A session's lock would not do: a frozen
process keeps it, a failover drops all, and a pooler has no sessions. A process wrongly taken for dead repeats
at most a call, since only the latest fence is accepted.

A process knows when it last renewed its row. Before others may take it for dead, or after it was frozen so
long, it tells its runners, which stop their work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

from stenolog.adapters.store.contract.claim_owner import Owner
from stenolog.adapters.store.contract.notifier import started
from stenolog.domain.errors import StenologError

from .connection.datastore import LogConnection, PostgresLogDatastore
from .statements import blob_rows

LEASE = 8.0
"""Seconds after which a process that has not renewed its row counts as dead."""
RENEW = 2.0
"""Seconds between two renewals."""
# What is left until the end of the lease is for the effects, which need time to stop.
UNPROTECTED = 6.0
"""Seconds after which a process that has not renewed its row warns its runners."""
LOOK = 0.25
"""Seconds between two looks at that."""
# A suspended machine stops the usual clock, while its lease goes on.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
BEAT = """INSERT INTO {s}.processes (id, seen, runners) VALUES (%s, clock_timestamp(), %s)
    ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, runners = excluded.runners"""
# After a crash of the server the table is empty, and a living process has not renewed its row yet.
LIVES = """SELECT EXISTS (SELECT FROM {s}.processes
        WHERE id = %s AND %s = ANY(runners) AND seen > clock_timestamp() - make_interval(secs => %s))
    OR (NOT EXISTS (SELECT FROM {s}.processes WHERE id = %s)
        AND pg_postmaster_start_time() > clock_timestamp() - make_interval(secs => %s))"""
END = "DELETE FROM {s}.processes WHERE id = %s"
SWEEP = "DELETE FROM {s}.processes WHERE seen < clock_timestamp() - interval '1 day'"


class ProcessLease:
    """This process's lease on a log; it begins when its `id` is first needed."""

    def __init__(self, store: PostgresLogDatastore) -> None:
        self._store = store
        self._id = uuid4().hex
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._runners: set[str] = set()
        self._watchers: dict[str, Callable[[], object]] = {}
        self._watching: threading.Thread | None = None
        self._told = 0.0
        self.renewed = 0.0
        """The time of the last renewal, or a little before, by this machine's clock."""

    @property
    def id(self) -> str:
        """This process's name in the table, alive from now on."""
        with self._guard:
            if self._thread is None:
                self._store.statement(self._beat)
                self._thread = threading.Thread(target=self._renew, name="stenolog-lease", daemon=True)
                started(self._thread, self._store.path)
        return self._id

    def add(self, runner: str) -> None:
        """Show to all processes that a runner of this one lives."""
        with self._guard:
            self._runners.add(runner)
            is_running = self._thread is not None
            if is_running:
                self._store.statement(self._beat)
        if not is_running:
            _ = self.id  # it begins with this runner

    def remove(self, runner: str) -> None:
        """Show that a runner has ended; if the server is away, at the next renewal."""
        with self._guard:
            self._runners.discard(runner)
            self._watchers.pop(runner, None)
            if self._thread is not None and not self._store.closed:
                with suppress(StenologError):
                    self._store.statement(self._beat)

    def renew(self) -> None:
        """Renew the lease now. Raises `StoreError`."""
        with self._guard:
            self._store.statement(self._beat)

    def watch(self, runner: str, call: Callable[[], object]) -> None:
        """Call a runner as `Presence.watch`."""
        with self._guard:
            self._watchers[runner] = call
            if self._watching is None:
                self._watching = threading.Thread(target=self._watch, name="stenolog-watch", daemon=True)
                started(self._watching, self._store.path)

    def lives(self, owner: str) -> bool:
        """Return whether a claim's owner lives, by the database's clock."""
        who = Owner.parse(owner)
        if not _is_process(who.database):
            return False
        values = (who.database, who.id, LEASE, who.database, LEASE)
        (found,) = self._store.read(lambda c: c.run(LIVES, values).fetchone()) or (False,)
        return bool(found)

    def close(self) -> None:
        """End the lease: from now on its process counts as dead."""
        self._stop.set()
        with self._guard:
            thread, self._thread = self._thread, None
            watching, self._watching = self._watching, None
        if watching is not None:
            watching.join()
        if thread is None or self._store.closed:
            return
        thread.join()
        # Where it fails, the others wait for the end of the lease.
        with suppress(StenologError):
            self._store.write(self._end)

    def _beat(self, connection: LogConnection, _again: bool) -> None:
        # Before it is asked for: the server's clock begins to count later.
        begun = time.clock_gettime(CLOCK)
        # A commit that changed only unlogged rows waits for no disk.
        connection.run(BEAT, (self._id, sorted(self._runners)))
        # After a freeze, this thread may be the first to go on.
        self._tell_at(begun)
        self.renewed = begun

    def _end(self, connection: LogConnection) -> None:
        connection.run(END, (self._id,))
        connection.run(blob_rows.UNPIN_ALL, (self._id,))
        connection.run(SWEEP)

    def _tell_at(self, now: float) -> None:
        """Tell the runners once if the lease was renewed too long ago."""
        if self.renewed in (0.0, self._told) or now - self.renewed < UNPROTECTED:
            return
        self._told = self.renewed
        for call in tuple(self._watchers.values()):
            # The event loop of a runner may have ended.
            with suppress(RuntimeError):
                call()

    def _watch(self) -> None:
        while not self._stop.wait(LOOK):
            self._tell_at(time.clock_gettime(CLOCK))

    def _renew(self) -> None:
        while not self._stop.wait(RENEW):
            # The server may be away; others take this process for dead in the end.
            with self._guard, suppress(StenologError):
                if not self._stop.is_set():
                    self._store.statement(self._beat)


class RunnerPresence:
    """A living runner of this process; see `roles.Presence`."""

    def __init__(self, lease: ProcessLease, id: str) -> None:
        self._lease = lease
        lease.add(id)
        self._id = id
        self.owner = str(Owner.of_this_process(id, lease.id))

    def lives(self, owner: str) -> bool:
        """Return whether a claim's owner is alive."""
        return self._lease.lives(owner)

    def forget(self, owner: str) -> None:
        """Do nothing: only its process's row has data on an owner."""

    def watch(self, call: Callable[[], object]) -> None:
        """Call `call` as `Presence.watch`."""
        self._lease.watch(self._id, call)

    def renew(self) -> None:
        """Renew the process's lease. Raises `StoreError`."""
        self._lease.renew()

    def close(self, *, keep: bool = False) -> None:
        """End the presence: the runner counts as dead."""
        self._lease.remove(self._id)


def _is_process(text: str) -> bool:
    return len(text) == 32 and text.isalnum() and text.isascii()
