"""Appends by another thread: those that arrive during a transaction share the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import TypeAlias

from stenolog.adapters.store.contract.appends import Append, Appended, last_head, make_records
from stenolog.adapters.store.contract.write_queue import MOST, PendingWrite, WriteQueue
from stenolog.domain.entry import Record
from stenolog.domain.errors import StenologError

from . import appends
from .appends import Crowds
from .connection.datastore import LogConnection, PostgresLogDatastore
from .connection.errors import RAISED, is_lost

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
        left, again = self._write_known(taken) if len(taken) > 1 else (taken, False)
        if len(left) == 1 or (left and not self._is_written(left, again)):
            # Each by itself, in order: one that is refused keeps no other from being written.
            for waiting in left:
                try:
                    waiting.written = appends.append(
                        self._datastore, self._crowds, waiting.asked, again=again
                    )
                except BaseException as error:
                    waiting.error = error
        self._finish(taken)
        self._ring()

    def _write_known(self, taken: Sequence[PendingAppend]) -> tuple[list[PendingAppend], bool]:
        """Make the appends after known heads by one statement.

        Return those that are left, and whether they may be written all the same.
        """
        of_stream: dict[str, list[PendingAppend]] = {}
        for waiting in taken:
            of_stream.setdefault(waiting.asked.stream.name, []).append(waiting)
        chains = {}
        try:
            appends.read_heads(self._datastore, [waiting.asked.stream for waiting in taken])
            for group in of_stream.values():
                # Refused here, it is told why by itself.
                with suppress(StenologError):
                    if chain := self._chain([waiting.asked for waiting in group]):
                        chains[chain[0]] = chain[1], group
            written = {key: [one for part in parts for one in part] for key, (parts, _) in chains.items()}
            if not written:
                return [*taken], False
            moved = self._datastore.once(lambda connection: appends.write_together(connection, written))
        except (StenologError, *RAISED) as error:
            return [*taken], is_lost(error)
        left = {*map(id, taken)}
        for key, (parts, group) in chains.items():
            if key not in moved:
                self._crowds.note(key)
                continue
            for waiting, records in zip(group, parts, strict=True):
                waiting.written = records
                waiting.asked.stream.head = last_head(parts[-1])
                left.discard(id(waiting))
        return [waiting for waiting in taken if id(waiting) in left], False

    def _chain(self, group: Sequence[Append]) -> tuple[int, list[list[Record]]] | None:
        """Return a stream's key and the records of each append to it; None if the log must be read first."""
        heads = [asked.stream.head for asked in group if asked.stream.head is not None]
        keys = {asked.stream.key for asked in group}
        key = keys.pop()
        if key is None or keys or not heads:
            return None
        head, parts = max(heads), []
        for asked in group:
            if not appends.may_follow(asked, key, head, self._crowds):
                return None
            parts.append(make_records(head, asked.items))
            head = last_head(parts[-1])
        return key, parts

    def _is_written(self, taken: Sequence[PendingAppend], again: bool) -> bool:
        """Make the appends in one transaction; return False if one of them was refused, and none made."""

        def write(connection: LogConnection, again: bool) -> list[Appended]:
            appends.take_turns_of(connection, {waiting.asked.stream.name for waiting in taken})
            return [appends.append_checked(connection, waiting.asked, again=again) for waiting in taken]

        try:
            made = self._datastore.repeat(write, again=again)
        except StenologError:
            return False
        for waiting, done in zip(taken, made, strict=True):
            waiting.written = done.records
            waiting.asked.stream.key, waiting.asked.stream.head = done.key, done.head
        return True
