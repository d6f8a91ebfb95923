"""Lock files beside an SQLite log that show which runners live.

A runner lives while it holds its file's lock. If the file was removed, its process is looked up.
"""

# The kernel releases a runner's lock as its process ends, however it ends (see decision 8).
# A dead runner is recognised at once, and one that merely stands still is not taken for dead.
# A lease would have to be longer than the slowest model, and shorter than a quick recovery.

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from glob import escape, glob

from stenolog.adapters.store.contract.claim_owner import Owner
from stenolog.domain.errors import StoreError

from . import file_locks

# With process ids, since a fork has a copy of this dict, and no lock.
_HERE: dict[str, int] = {}
"""The runners of this process, each with its process id."""
_SWEPT: set[str] = set()
"""Databases whose dead processes' files this process has removed."""


class LivenessLock:
    """A runner's presence; `file` is the database's (":memory:": private).

    `owner` is its claims' name for it. `claimed` returns all claims' owners.
    """

    def __init__(
        self,
        file: str,
        id: str,
        *,
        in_memory: bool = False,
        claimed: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._database = file
        self._path = _path(file, id)
        self._file: int | None = None
        self._process = os.getpid()
        self.owner = str(Owner.of_this_process(id, _identity(file))) if not in_memory else id
        _HERE[self.owner] = os.getpid()
        if not in_memory:
            try:
                self._file = file_locks.make_lock_file(self._path, file)
            except OSError as error:
                raise StoreError(f"{self._path}: cannot show that a runner lives: {error}") from error
            self._sweep(claimed)

    def lives(self, owner: str) -> bool:
        """Return whether a runner is alive."""
        return owner_lives(self._database, owner)

    def forget(self, owner: str) -> None:
        """Remove the file of a dead runner that has no claim left."""
        if path := _path(self._database, Owner.parse(owner).id):
            file_locks.remove_lock_file(path)

    def watch(self, call: Callable[[], object]) -> None:
        """Do nothing: the kernel keeps the file's lock, so nobody takes the process for dead."""

    def renew(self) -> None:
        """Do nothing, as `watch`."""

    def _sweep(self, claimed: Callable[[], Collection[str]]) -> None:
        """Remove dead processes' files without claims, once per process."""
        prefix = _path(self._database, "")
        # Once is enough: of a runner that dies later, the file goes when its claims are settled (`forget`).
        if prefix in _SWEPT:
            return
        _SWEPT.add(prefix)
        dead = [path for path in glob(f"{escape(prefix)}*") if file_locks.is_lock_file_held(path) is False]
        # The file of a dead runner with claims stays: a missing one has its process looked for. The claims
        # are read after the locks, because a runner takes none once its lock is released.
        kept = {_path(self._database, Owner.parse(owner).id) for owner in claimed()}
        for path in dead:
            if path not in kept:
                file_locks.remove_lock_file(path)

    def close(self, *, keep: bool = False) -> None:
        """End the presence. `keep` leaves its unlocked file for remaining claims."""
        _HERE.pop(self.owner, None)
        if self._file is not None:
            # Removed while it is still locked, so that no process takes it for a dead runner's. A forked
            # child must leave its parent's file alone.
            if not keep and self._process == os.getpid():
                with suppress(OSError):
                    os.unlink(self._path)
            file_locks.close_lock_file(self._file, self._process)
            self._file = None


def owner_lives(file: str, owner: str) -> bool:
    """Return whether a claim's owner lives, by its file, or its process if that is missing."""
    if _HERE.get(owner) == os.getpid():
        return True
    who = Owner.parse(owner)
    held = file_locks.is_lock_file_held(path) if (path := _path(file, who.id)) else None
    # A missing file was removed by a person, or by a program that cleans up. A copy of the log is another
    # file, whose claims the running process does not have.
    if held is None:
        return bool(who.database) and who.database == _identity(file) and who.is_running
    return held


def _path(file: str, id: str) -> str:
    if "/" in id or "\0" in id:
        return ""
    # The real path: one place, by whatever name the database is opened.
    return f"{os.path.realpath(file)}-runner-{id}"


def _identity(file: str) -> str:
    with suppress(OSError):
        found = os.stat(file)
        return f"{found.st_dev}.{found.st_ino}"
    return ""
