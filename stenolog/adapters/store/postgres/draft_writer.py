"""Drafts of many answers in one transaction: those that arrive during a write share the next."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from .connection.datastore import PostgresLogDatastore
from .statements import claim_rows


class _Pieces:
    """A caller's pieces, and whether stored; `woken` is set then, or when it must store them."""

    def __init__(self, said: Sequence[tuple[int, bytes]]) -> None:
        self.said = said
        self.woken = threading.Event()
        self.is_done = False
        self.error: BaseException | None = None


class DraftWriter:
    """Writer of a process's drafts, one transaction at a time.

    One caller writes for all who wait, then hands over to the first newcomer. With a lock, callers whose
    pieces are stored would wait for others' writes.
    """

    def __init__(self, datastore: PostgresLogDatastore) -> None:
        self._datastore = datastore
        self._guard = threading.Lock()
        self._waiting: list[_Pieces] = []
        self._is_writing = False

    def add(self, said: Sequence[tuple[int, bytes]]) -> None:
        """Store pieces with those of others that wait; see `LogRecorder.add_drafts`."""
        mine = _Pieces(said)
        with self._guard:
            self._waiting.append(mine)
            if not self._is_writing:
                self._is_writing = True
                mine.woken.set()
        mine.woken.wait()
        if not mine.is_done:
            self._write()
        if mine.error is not None:
            raise mine.error

    def _write(self) -> None:
        with self._guard:
            together, self._waiting = self._waiting, []
        rows = [row for pieces in together for row in pieces.said]
        stored: list[tuple[int, int]] = []
        error: BaseException | None = None
        try:
            self._datastore.repeat(lambda c, again: claim_rows.add_drafts(c, rows, stored, again=again))
        except BaseException as failed:
            error = failed
        for pieces in together:
            pieces.is_done, pieces.error = True, error
            pieces.woken.set()
        with self._guard:
            self._is_writing = bool(self._waiting)
            if self._waiting:
                self._waiting[0].woken.set()
