"""Completion of erasures: erased words in files beside the log and in blobs.

The store marks what is left to remove, in the overwriting transaction.
"""

# A process that is killed in between leaves the marks. The next one to open the log goes on from there. So an
# erasure is done or not, never half.

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Protocol

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.domain.errors import OperationalError, StenologError, StoredDataError

from . import checkpoints
from .file import delete_retired
from .search_index import Index


class Cache(Protocol):
    """A cache in memory of what streams say."""

    def drop(self, key: int) -> None:
        """Remove all that comes from a stream."""

    def close(self) -> None:
        """Store what another process may go on from."""


class Files(Protocol):
    """An open log: its store, and the files beside it."""

    recorder: LogRecorder
    checkpoints: checkpoints.Checkpoints
    index: Index
    windows: Cache | None


def finish(log: Files) -> bool:
    """Remove erased words beside the log and from blobs; return whether all are removed."""
    keys, named, number = log.recorder.erasure.unfinished()
    if not (keys or named):
        return True
    # Folds of the whole log have seen the words, too.
    for key in {checkpoints.WHOLE_LOG, *keys}:
        if log.windows is not None:
            log.windows.drop(key)
        log.checkpoints.erase_stream(key)
    # Taking words out of the index needs the very words, which are gone; so the file goes.
    log.index.discard()
    delete_retired(log.recorder.sidecar_path)
    try:
        # Where another process is in the way, the marks stay: the next process to open the log tries again.
        if named and log.recorder.blobs.can_collect and log.recorder.blobs.collect(named).kept:
            return False
        if not log.recorder.compact():
            return False
        # Up to the number that was read: an erasure that came meanwhile keeps its marks.
        log.recorder.erasure.end(number)
    except (OperationalError, StoredDataError):
        return False
    return True


def purge(log: Files, key: int, named: Collection[str]) -> None:
    """Remove a deleted stream's words from all of the log's files.

    `named` are the sha256 of blobs that they may have named.
    """
    if log.windows is not None:
        log.windows.drop(key)
    delete_retired(log.recorder.sidecar_path)
    # Folds of the whole log have seen the words, too.
    for each in (key, checkpoints.WHOLE_LOG):
        log.checkpoints.erase_stream(each)
    # Where another process is in the way, the blobs and the log's rest stay for the next `collect`.
    with suppress(OperationalError, StoredDataError):
        if named:
            log.recorder.blobs.collect(named)
    with suppress(OperationalError):
        log.recorder.compact()


def go_on(log: Files) -> None:
    """Finish a killed process's erasures; leave the rest for the next."""
    # An erasure that cannot be finished must not keep a log from being opened.
    with suppress(StenologError):
        finish(log)
