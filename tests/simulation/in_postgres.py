"""A simulated process's log in PostgreSQL: faults around its transactions, and a lease without a thread.

With `process`, the only module of the simulation that reaches into private parts of stenolog.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from stenolog import Log
from stenolog.adapters.store.contract.claim_owner import Owner
from stenolog.adapters.store.postgres import presence

if TYPE_CHECKING:
    from .process import Process

# Far ahead: how long a simulation takes decides nothing.
BEAT = presence.BEAT.replace("clock_timestamp()", "'infinity'")


def hook(log: Log, process: Process, killed: type[BaseException]) -> None:
    """Put the faults of a process before, within and behind each transaction of its log."""
    recorder: Any = log.recorder
    store: Any = recorder.datastore
    recorder.lease = recorder.blobs._lease = recorder.claims._lease = SimulatedLease(recorder, process)
    recorder.bell = process.notifier
    for role in (recorder.conversations, recorder.erasure, recorder.drafts):
        role._ring = process.notifier.ring
    # They pass by the machine's clock, which is nothing that a seed decides.
    recorder._crowds.note = lambda key: None

    def reading(real: Callable[..., Any]) -> Callable[..., Any]:
        def read(*given: Any, **named: Any) -> Any:
            process.fault("read")
            return real(*given, **named)

        return read

    def writing(real: Callable[..., Any], *, is_one_statement: bool = False) -> Callable[..., Any]:
        def write(work: Callable[..., Any], *given: Any, **named: Any) -> Any:
            def doomed(*args: Any) -> Any:
                result = None if is_one_statement else work(*args)
                if process.dies("commit"):
                    process.kill()
                    raise killed
                return work(*args) if is_one_statement else result

            process.fault("write", busy=True)
            result = real(doomed, *given, **named)
            process.host.committed(process)
            process.fault("written")
            return result

        return write

    store.read, store.snapshot = reading(store.read), reading(store.snapshot)
    store.write, store.repeat = writing(store.write), writing(store.repeat)
    store.once = writing(store.once, is_one_statement=True)


def crash(log: Log) -> None:
    """Close a log as the kernel does when its process ends; an error rolls an open transaction back."""
    store: Any = log.recorder.datastore  # type: ignore[attr-defined]
    store._closed = True
    store._connections.close()


class SimulatedLease:
    """The lease of a simulated process: it ends with a kill, or when the process was held up for too long."""

    def __init__(self, recorder: Any, process: Process) -> None:
        self._store = recorder.datastore
        self._process = process
        # Not drawn at random: a seed decides everything.
        self.id = blake2b(process.name.encode(), digest_size=16).hexdigest()
        self._runners: set[str] = set()
        self._write, self._read = self._store.write, self._store.read
        process.host.leases[self.id] = process
        self._beat()

    def add(self, runner: str) -> None:
        """Show that a runner lives."""
        self._runners.add(runner)
        self._beat()

    def remove(self, runner: str) -> None:
        """Show that a runner has ended."""
        self._runners.discard(runner)
        if not self._process.is_dead:
            self._beat()

    def watch(self, runner: str, call: Callable[[], object]) -> None:
        """Tell nobody: a simulated process learns of its loss by its fences alone."""

    def renew(self) -> None:
        """Renew nothing: the row never expires."""

    def lives(self, owner: str) -> bool:
        """Return whether the owner of a claim is alive."""
        who = Owner.parse(owner)
        process = self._process.host.leases.get(who.database)
        if process is None or process.is_dead or process.held_for > presence.LEASE:
            return False
        values = (who.database, who.id, presence.LEASE, who.database, 0)
        (found,) = self._read(lambda c: c.run(presence.LIVES, values).fetchone())
        return bool(found)

    def close(self) -> None:
        """End the lease."""

    def _beat(self) -> None:
        self._write(lambda c: c.run(BEAT, (self.id, sorted(self._runners))))
