"""Appends by another thread: those that arrive during a transaction share the next."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TypeAlias

from stenolog.adapters.store.contract.appends import Append, Appended
from stenolog.adapters.store.contract.write_queue import MOST, PendingWrite, WriteQueue
from stenolog.domain.entry import Record
from stenolog.domain.errors import StenologError

from . import appends
from .appends import Crowds
from .connection.datastore import LogConnection, PostgresLogDatastore

PendingAppend: TypeAlias = PendingWrite[Append, list[Record]]


class AppendQueue(WriteQueue[Append]):
    """A process's appends, made in order by a thread; `ring` is called after each commit."""

    def __init__(self, store: PostgresLogDatastore, crowds: Crowds, ring: Callable[[], object]) -> None:
        super().__init__(store)
        self._datastore = store
        self._crowds = crowds
        self._ring = ring

    def _write_together(self, first: PendingAppend) -> None:
        taken = [first, *islice(self._queued(), MOST - 1)]
        if len(taken) == 1 or not self._is_written(taken):
            # Each by itself, in order: one that is refused keeps no other from being written.
            for waiting in taken:
                try:
                    waiting.written = appends.append(self._datastore, self._crowds, waiting.asked)
                except BaseException as error:
                    waiting.error = error
        self._finish(taken)
        self._ring()

    def _is_written(self, taken: list[PendingAppend]) -> bool:
        """Make the appends in one transaction; return False if one of them was refused, and none made."""

        def write(connection: LogConnection, again: bool) -> list[Appended]:
            appends.take_turns_of(connection, {waiting.asked.stream.name for waiting in taken})
            return [appends.append_checked(connection, waiting.asked, again=again) for waiting in taken]

        try:
            made = self._datastore.repeat(write)
        except StenologError:
            return False
        for waiting, done in zip(taken, made, strict=True):
            waiting.written = done.records
            waiting.asked.stream.key, waiting.asked.stream.head = done.key, done.head
        return True
