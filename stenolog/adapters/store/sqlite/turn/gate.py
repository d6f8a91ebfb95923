"""The gate of a database: it is not opened while replaced, nor replaced while open.

A file beside the log (`<path>.stenolog-restore`) marks a replacement in progress. If its process is killed,
the log stays closed until the replacement is repeated.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Protocol

from stenolog.adapters.store.sqlite import file_locks, file_safety
from stenolog.adapters.store.sqlite.errors import NO_LOCKS, without_locks
from stenolog.domain.errors import StoreError, StoreTimeoutError

RESTORE_MARK = ".stenolog-restore"
POLL = 0.01


class OpenDatabase(Protocol):
    """A datastore of this process, as `replace_database` needs it."""

    file: str

    @property
    def closed(self) -> bool:
        """True if the datastore was closed."""


# SQLite's record locks belong to the process, so they do not stop this process itself.
OPEN: weakref.WeakSet[OpenDatabase] = weakref.WeakSet()


def note_open(datastore: OpenDatabase) -> None:
    """Remember an open datastore of this process for `replace_database`."""
    OPEN.add(datastore)


@contextmanager
def opening(database: str, deadline: float) -> Iterator[None]:
    """Prevent a database's replacement while this process opens it.

    Raises `StoreTimeoutError`, `StoreError`.
    """
    # SQLite's own locks show that a log is open only later, when it has read a page.
    # A log that is new here has no lock file yet, and one that is refused gets none.
    is_known = os.path.exists(f"{database}-lock")
    with passing(database, file_locks.SHARED, deadline) if is_known else nullcontext():
        if os.path.exists(f"{database}{RESTORE_MARK}"):
            raise StoreError(
                f"{database}: a restore was interrupted: run `stenolog db restore` again. The files that it "
                f"moved are {database}.before-{interrupted_stamp(database)}…"
            )
        yield


@contextmanager
def passing(database: str, kind: int, deadline: float) -> Iterator[None]:
    """Hold the gate: shared to open a database, exclusive to replace it. Raises `StoreTimeoutError`."""
    file_safety.follow_permissions(f"{database}-lock", database)
    try:
        file = file_locks.open_lock_file(f"{database}-lock")
    # Where no lock file can be made, no process can be kept out.
    except OSError:
        yield
        return
    try:
        give_up = time.monotonic() + deadline
        while True:
            try:
                file_locks.lock_byte(file, file_locks.OPENING_BYTE, kind)
                break
            except OSError as error:
                if error.errno in NO_LOCKS:
                    raise without_locks(database, error) from error
                if time.monotonic() > give_up:
                    raise StoreTimeoutError(
                        f"{database}: waited {deadline} s for others to open or restore it"
                    ) from None
                time.sleep(POLL)
        yield
    finally:
        file_locks.close_lock_file(file, os.getpid())


def interrupted_stamp(database: str) -> str:
    """Return an interrupted replacement's stamp; "" if there is none."""
    with suppress(OSError):
        return Path(f"{database}{RESTORE_MARK}").read_text()
    return ""
