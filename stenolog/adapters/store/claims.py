"""Claims on effects, durable before an effect begins, and the files that show whether their runners live.

Neither a claim nor a draft is truth. A claim is gone once what came of its effect stands in the log, in the
same transaction. One whose owner is dead tells that nobody knows how its effect ended.

A runner lives while it has its file locked. Where the file of a living runner was removed, its process is
looked for instead.
"""

# The kernel releases a runner's lock as its process ends, however it ends (see decision 8).
# A dead runner is recognised at once, and one that merely stands still is not taken for dead.
# A lease would have to be longer than the slowest model, and shorter than a quick recovery.

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from glob import escape, glob
from pathlib import Path
from typing import NamedTuple

from stenolog.domain.entry import EPOCH, MICROSECOND
from stenolog.domain.errors import StoreError

from . import arguments, file_locks
from .handle import LogHandle
from .recorder import LogRecorder
from .store_values import Claim, Stream


class Claims:
    """The claims on the effects of one conversation; see `LogRecorder` for what each of these does."""

    def __init__(self, recorder: LogRecorder, stream: Stream) -> None:
        self._recorder = recorder
        self._stream = stream

    def take(self, wanted: Sequence[Claim], expected: int) -> list[Claim | None]:
        """Return the claims with their fences; None for one that another process has.

        They were decided on at the position `expected`: raises `VersionConflictError` where the log has moved
        on.
        """
        return self._recorder.take_claims(self._stream, wanted, expected)

    def all(self) -> list[Claim]:
        """Return every claim on the conversation's effects, the oldest first."""
        return [] if self._stream.key is None else self._recorder.claims(self._stream)

    def take_over(self, claim: Claim, owner: str) -> Claim | None:
        """Return a dead owner's claim, under a new fence with its drafts; None if it is no longer there."""
        return self._recorder.take_over_claim(self._stream, claim, owner)

    def release(self, claim: Claim) -> None:
        """Let an effect go that was not begun, or may be begun again."""
        self._recorder.release_claim(claim)

    def draft(self, said: Iterable[tuple[int, bytes]]) -> None:
        """Store the pieces streamed since the last time, for several claims at once: fences, and JSON.

        For a claim that is no longer there nothing is kept.
        """
        if rows := list(said):
            self._recorder.add_drafts(rows)

    def drafted(self, claim: Claim) -> list[bytes]:
        """Return the streamed pieces saved for a claim, in order."""
        return self._recorder.drafts(claim.fence)


def owners(recorder: LogRecorder) -> list[str]:
    """Return the owners of all claims in the log."""
    return list(dict.fromkeys(claim.owner for _, claim in recorder.all_claims()))


# With process ids, since a fork has a copy of this dict, and no lock.
_HERE: dict[str, int] = {}
"""The runners of this process, each with its process id."""
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
        # From the right, because an id may hold blanks and the four other parts do not.
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
        # A process id is used again, so the start of the process is compared as well.
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

    def _sweep(self, claimed: Callable[[], Collection[str]]) -> None:
        """Remove the files of dead processes without a claim, once in a process."""
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
        """End the runner's presence. `keep` leaves its file, unlocked, for claims that are left behind."""
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
    """Return whether the owner of a claim is alive: by its file, or by its process if the file is missing."""
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
    """Return the path of a runner's file; "" for an id that no file name can hold."""
    if "/" in id or "\0" in id:
        return ""
    # The real path: one place, by whatever name the database is opened.
    return f"{os.path.realpath(file)}-runner-{id}"


def _identity(file: str) -> str:
    with suppress(OSError):
        found = os.stat(file)
        return f"{found.st_dev}.{found.st_ino}"
    return ""


def _start_of(pid: int) -> str:
    """Return when a process began, in ticks since the machine did; "" for a dead or unknown one."""
    try:
        # Behind the last bracket, because a program's name may hold blanks and brackets.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    # A zombie has ended, though its id is still taken.
    return "" if fields[0] in "ZX" else fields[19]


# The name of no runner, so that the next runner settles the claim as an orphan.
TAKEN = "taken over by a person"
"""The owner of a claim that was taken over."""


class OpenClaim(NamedTuple):
    """An effect under way. `effect` is "model", or "tool" with its call; `since` is aware UTC.

    `alive` tells whether the owner's process lives; one that hangs does. `host` and `pid` name the process,
    and `owner` the runner in it.
    """

    conversation: str
    lane: str
    effect: str
    since: datetime
    host: str
    pid: int
    alive: bool
    owner: str


def open_claims(log: LogHandle, conversation: str | None = None) -> list[OpenClaim]:
    """Return the claims of a log or a conversation, the oldest first. Raises `ConversationNotFoundError`."""
    _check_conversation(log, conversation)
    found = log.recorder.all_claims()
    return [_open_claim(log, name, claim) for name, claim in found if conversation in (None, name)]


def take_over(log: LogHandle, conversation: str, owner: str | int | None = None) -> list[OpenClaim]:
    """Take a conversation's claims from their owners; see `Log.take_claims`."""
    _check_conversation(log, conversation)
    store = Claims(log.recorder, log.stream(conversation))
    before = [(claim, _open_claim(log, conversation, claim)) for claim in store.all()]
    return [
        shown
        for claim, shown in before
        if owner in (None, shown.owner, shown.pid, str(shown.pid)) and store.take_over(claim, TAKEN)
    ]


def _check_conversation(log: LogHandle, conversation: str | None) -> None:
    if conversation is not None and conversation not in log:
        raise arguments.missing(conversation, log.path)


def _open_claim(log: LogHandle, conversation: str, claim: Claim) -> OpenClaim:
    owner = Owner.parse(claim.owner)
    return OpenClaim(
        conversation,
        claim.lane,
        claim.effect,
        EPOCH + claim.at * MICROSECOND,
        owner.host,
        owner.pid,
        owner_lives(log.recorder.sidecar_path, claim.owner),
        owner.id,
    )
