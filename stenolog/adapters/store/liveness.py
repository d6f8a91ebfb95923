"""The presence of a runner: a locked file beside the log. The kernel releases the lock when its process ends.

So a dead runner is recognised at once, however long its effects take, and one that merely stands still is not
taken for dead. Where the file of a living runner was removed, its process is looked for instead.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Collection
from contextlib import suppress
from glob import escape, glob
from pathlib import Path
from typing import NamedTuple

from stenolog.domain.errors import StoreError

from . import lockfile

_HERE: dict[str, int] = {}
"""The runners of this process, each with its process id: a fork of it has a copy of this, and no lock."""
_SWEPT: set[str] = set()
"""Databases whose dead processes' files this process has removed."""


class Owner(NamedTuple):
    """A runner as its claims name it.

    `start` is when its process began, as the kernel counts, and `database` the file that it opened: a copy
    of the log is another one. Both are empty where the system does not say.
    """

    id: str
    host: str = ""
    pid: int = 0
    start: str = ""
    database: str = ""

    @classmethod
    def of_this_process(cls, id: str, file: str) -> Owner:
        """Return the owner that a runner of this process is."""
        pid = os.getpid()
        return cls(id, platform.node().replace(" ", "-"), pid, _start_of(pid), _identity(file))

    @classmethod
    def parse(cls, text: str) -> Owner:
        """Read an owner as a claim has it; one of another form is an id alone."""
        parts = text.rsplit(" ", 4)
        if len(parts) != 5 or not parts[2].isdecimal():
            return cls(text)
        id, host, pid, start, database = parts
        return cls(id, host, int(pid), start.strip("-"), database.strip("-"))

    def __str__(self) -> str:
        return f"{self.id} {self.host or '-'} {self.pid} {self.start or '-'} {self.database or '-'}"

    @property
    def is_running(self) -> bool:
        """True if the process runs on this machine."""
        return bool(self.start) and self.host == platform.node() and _start_of(self.pid) == self.start


class LivenessLock:
    """The presence of one runner; `file` is the database's (":memory:": nobody else can have it).

    `owner` is what its claims name it. `claimed` returns the owners of all claims in the log.
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
        self.owner = str(Owner.of_this_process(id, file)) if not in_memory else id
        _HERE[self.owner] = os.getpid()
        if not in_memory:
            try:
                self._file = lockfile.make(self._path, file)
            except OSError as error:
                raise StoreError(f"{self._path}: cannot show that a runner lives: {error}") from error
            self._sweep(claimed)

    def lives(self, owner: str) -> bool:
        """Return whether a runner is alive."""
        return lives(self._database, owner)

    def forget(self, owner: str) -> None:
        """Remove the file of a dead runner that has no claim left."""
        if path := _path(self._database, Owner.parse(owner).id):
            lockfile.remove(path)

    def _sweep(self, claimed: Callable[[], Collection[str]]) -> None:
        """Once in a process, remove the files of the dead that have no claim."""
        prefix = _path(self._database, "")
        if prefix in _SWEPT:
            return
        _SWEPT.add(prefix)
        dead = [path for path in glob(f"{escape(prefix)}*") if lockfile.is_held(path) is False]
        # The file of a dead runner with claims stays: a missing one has its process looked for. The claims
        # are read after the locks, because a runner takes none once its lock is released.
        kept = {_path(self._database, Owner.parse(owner).id) for owner in claimed()}
        for path in dead:
            if path not in kept:
                lockfile.remove(path)

    def close(self, *, keep: bool = False) -> None:
        """End the runner's presence. `keep` leaves its file, unlocked, for claims that are left behind."""
        _HERE.pop(self.owner, None)
        if self._file is not None:
            if not keep and self._process == os.getpid():
                with suppress(OSError):
                    os.unlink(self._path)
            lockfile.close(self._file, self._process)
            self._file = None


def lives(file: str, owner: str) -> bool:
    """Return whether the owner of a claim is alive.

    Its file says so while it is there. A file that is missing was removed by a person or a program that
    cleans up: then the owner is alive if its process is.
    """
    if _HERE.get(owner) == os.getpid():
        return True
    who = Owner.parse(owner)
    held = lockfile.is_held(path) if (path := _path(file, who.id)) else None
    if held is None:
        return bool(who.database) and who.database == _identity(file) and who.is_running
    return held


def _path(file: str, id: str) -> str:
    """Return the path of a runner's file; "" for an id that no file name can hold."""
    if "/" in id or "\0" in id:
        return ""
    return f"{os.path.realpath(file)}-runner-{id}"  # one place, by whatever name the file is opened


def _identity(file: str) -> str:
    with suppress(OSError):
        found = os.stat(file)
        return f"{found.st_dev}.{found.st_ino}"
    return ""


def _start_of(pid: int) -> str:
    """Return when a process began, in ticks since the machine did; "" for a dead or unknown one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
