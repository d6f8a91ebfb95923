"""Handles on a log and a conversation, bases of `Log` and `Conversation`.

Folds, requests, forks, search and erasure take handles, so that they need not import these two, which call
them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, get_args

from stenolog.adapters.store.contract.application import LogApplication
from stenolog.adapters.store.contract.blobs import Blobs
from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import Collected, Order, Stream, Which
from stenolog.adapters.store.sidecar import erasures
from stenolog.adapters.store.sidecar.checkpoints import Checkpoints
from stenolog.adapters.store.sidecar.search_index import Index
from stenolog.adapters.store.sqlite.file_safety import Seals
from stenolog.adapters.store.sqlite.recorder import SqliteLogRecorder
from stenolog.adapters.store.sqlite.turn.datastore import SqliteLogDatastore
from stenolog.domain.entry import Entry, Record, check_name
from stenolog.domain.errors import (
    HeldError,
    PositionNotFoundError,
    StoreError,
)
from stenolog.domain.history import EVERY_STREAM, holds_of
from stenolog.domain.values import PositionRange

from . import arguments, reader
from .reader import follow

T = TypeVar("T")
# Bounds the memory of a process that goes through many conversations.
REMEMBERED = 1000
"""The number of conversations whose heads a log remembers."""


class KnownStreams:
    """The streams that a process uses; handles on the same conversation share its head."""

    def __init__(self) -> None:
        self._by_key: dict[int, Stream] = {}

    def share(self, found: Stream) -> Stream:
        """Return the stream that the other handles of its key use; add the first."""
        if found.key is None:
            return found
        # Handles keep their own stream: only the sharing of its head is lost, which costs a read.
        if len(self._by_key) >= REMEMBERED:
            self._by_key.clear()
        stream = self._by_key.setdefault(found.key, found)
        # Another process may have renamed it.
        stream.name = found.name
        return stream

    def forget_head(self, key: int) -> None:
        """Have a stream's head read again."""
        if (stream := self._by_key.get(key)) is not None:
            stream.forget()


class LogHandle:
    """An open log: its file, caches beside it, and streams known to this process.

    `application` is the log as an application of the `eventsourcing` library. `windows` caches requests'
    windows. `on_request`, if set, is called with each request built. `stores_sessions`: what was written of
    requests is stored beside the log for other processes.
    """

    on_request: Callable[[Any], object] | None = None
    stores_sessions = True

    def __init__(self, application: LogApplication) -> None:
        self.application = application
        self.recorder: LogRecorder = application.recorder
        self.edge = self.recorder.edge
        self.blobs = Blobs(self.recorder)
        self.seals = Seals(self.recorder.seal_key)
        self.checkpoints = Checkpoints(self.recorder.sidecar_path, self.seals)
        self.index = Index(self.recorder.sidecar_path)
        self.windows: erasures.Cache | None = None
        self.streams = KnownStreams()
        # An erasure whose process was killed is finished by the next one that opens the log.
        erasures.go_on(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    @property
    def path(self) -> str:
        return self.recorder.path

    @property
    def datastore(self) -> SqliteLogDatastore:
        """The log's SQLite database, for inspection and repair.

        Raises `StoreError` for another store.
        """
        if not isinstance(self.recorder, SqliteLogRecorder):
            raise StoreError(f"{self.path}: expected a log in an SQLite file, found one in another store")
        return self.recorder.datastore

    def close(self) -> None:
        """Give the file back; the write-ahead log is checkpointed."""
        if self.windows is not None and not self.recorder.closed:
            self.windows.close()
        self.checkpoints.close()
        self.index.close()
        self.recorder.close()
        self.application.close()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.recorder.conversations.find(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return self.count()

    def names(
        self,
        *,
        archived: bool = False,
        prefix: str = "",
        contains: str = "",
        active_since: datetime | None = None,
        active_until: datetime | None = None,
        older_than: str = "",
        limit: int | None = None,
        order: Order = "oldest",
    ) -> list[str]:
        """Return the conversations' names, oldest first, with or without archived ones.

        Filters: `prefix`; `contains`, with Latin letters of either case; `active_since` and `active_until`,
        aware times of the last entry; `older_than`, a conversation's name. `limit` counts in `order`:
        "oldest" or "newest" by their start, "latest" by their last entries, "a-z" or "z-a" by name. With
        "latest", `older_than` goes by that time too, and of very many conversations those begun last are
        compared. Raises `InvalidEventError`.
        """
        if limit is not None:
            arguments.number("limit", limit)
        arguments.some_of("order", (order,), get_args(Order))
        which = self._which(archived, prefix, contains, (active_since, active_until), older_than)
        which = which._replace(by_time=order == "latest")
        return self.recorder.conversations.names(which, limit=limit, order=order)

    def count(
        self,
        *,
        archived: bool = False,
        prefix: str = "",
        contains: str = "",
        active_since: datetime | None = None,
        active_until: datetime | None = None,
        older_than: str = "",
        order: Order = "oldest",
    ) -> int:
        """Return the number of conversations, selected as by `names`."""
        arguments.some_of("order", (order,), get_args(Order))
        which = self._which(archived, prefix, contains, (active_since, active_until), older_than)
        which = which._replace(by_time=order == "latest")
        return self.recorder.conversations.count(which)

    @staticmethod
    def _which(
        archived: bool,
        prefix: str,
        contains: str,
        active: tuple[datetime | None, datetime | None],
        older_than: str,
    ) -> Which:
        for what, asked in (("prefix", prefix), ("contains", contains), ("older_than", older_than)):
            arguments.text(what, asked)
        since, until = map(arguments.instant, ("active_since", "active_until"), active)
        return Which(archived, prefix, contains, since, older_than, until=until)

    @property
    def last_sequence(self) -> int:
        """The last entry's notification id; 0 if there is none."""
        return self.recorder.last_committed()[0]

    def tail(self, timeout: float | None = None) -> Iterator[Entry]:
        """Yield each new entry of any conversation, in commit order; ends as `Conversation.tail`."""
        unread = partial(reader.everything, self.recorder)
        return _while_open(self, follow(self.recorder, unread, self.last_sequence, timeout))

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the log into a new file, while other processes may append.

        Raises `StoreError` if the file exists or cannot be written; then nothing is left.
        """
        self.recorder.backup(Path(path))

    def stream(self, name: str) -> Stream:
        """Return a conversation's stream, without a key before its first append."""
        check_name(name, what="conversation")
        return self.streams.share(Stream(name, self.recorder.conversations.find(name)))

    def collect(self) -> Collected:
        """Remove blobs that no entry names, and empty the write-ahead log.

        A blob put by a living process stays until an entry names it or that process closes its log. One
        referenced only outside of this log is removed. Raises `StoreTimeoutError`, `StoreError` (always, if
        not on Linux), and `HeldError` if all of the log is under hold.
        """
        for hold in holds_of(self.recorder.erasure.holds()):
            if hold.stream == EVERY_STREAM and hold.is_whole and hold.released is None:
                raise HeldError(f"{self.path}: under {hold}")
        erasures.go_on(self)
        found = self.recorder.blobs.collect()
        return found._replace(is_complete=self.recorder.compact())


def existing_key(log: LogHandle, stream: Stream) -> int:
    """Return a stream's key. Raises `ConversationNotFoundError` without entries."""
    key = log.recorder.resolve(stream)
    if key is None:
        raise arguments.missing(stream.name, log.path)
    return key


class StreamHandle:
    """A handle on a conversation for reading; it stays valid when the conversation is renamed.

    Positions count from 1; 0 is before the first entry.
    """

    def __init__(self, log: LogHandle, stream: Stream) -> None:
        self.log = log
        self.stream = stream
        self._recorder = log.recorder

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} in {self.log.path}>"

    @property
    def name(self) -> str:
        return self.stream.name

    @property
    def key(self) -> int | None:
        """The conversation's number, never reused in its file; None without entries."""
        return self._recorder.resolve(self.stream)

    @property
    def position(self) -> int:
        """The position of the last entry; 0 while there is none."""
        return self._recorder.head(self.stream).position

    @property
    def digest(self) -> str:
        """The last entry's digest, 64 hexadecimal digits; empty without entries.

        Kept elsewhere, it later proves that nothing before it changed (`verify`, `head=`).
        """
        return self._recorder.head(self.stream).digest.hex()

    def entries(self, after: int = 0, at: int | None = None, *, strict: bool = False) -> Iterator[Entry]:
        """Yield the entries with `after` < position <= `at` in pages, inherited ones too.

        Entries appended meanwhile are included. Each is checked against its digest when this process first
        reads it. A `Damaged` event with the reason replaces an unreadable or changed one; `strict` raises
        `CorruptLogError`.
        """
        return _while_open(self.log, reader.entries(self._recorder, self.stream, after, at, strict))

    def entry(self, position: int) -> Entry:
        """Return the entry at a position. Raises `PositionNotFoundError`, `ConversationNotFoundError`."""
        self.checked(position, least=1)
        return next(self.entries(position - 1, position))

    def entry_by_id(self, id: str) -> Entry | None:
        """Return the entry of that id; None if there is none. A fork's own counts before an inherited one."""
        return reader.find(self._recorder, self.stream, id)

    def imported_ranges(self) -> tuple[PositionRange, ...]:
        """Return the positions that came from an exported file, inherited ones too."""
        return reader.imported_spans(self._recorder, self.stream)

    def records(self, after: int = 0, at: int | None = None) -> Iterator[Record]:
        """Yield the entries as stored records."""
        return _while_open(self.log, reader.records(self._recorder, self.stream, after, at))

    def withheld(self) -> frozenset[int]:
        """Return the positions of entries that came without their words, inherited ones too."""
        segments = self._recorder.lineage(self.stream)
        of = ((one, self._recorder.erasure.withheld(one.key)) for one in segments)
        return frozenset(at for one, found in of for at in found if one.after < at <= one.upto)

    def checked(self, position: int, *, least: int = 0) -> int:
        """Return a caller's position if the conversation has it.

        Raises `PositionNotFoundError`, and `ConversationNotFoundError` if `least` wants an entry of a
        conversation without any.
        """
        # A conversation never gets shorter, so a position up to a known head needs no read.
        remembered = self.stream.head
        if remembered is not None and _is_among(position, least, remembered.position):
            return position
        head = self.position
        if head < least:
            raise arguments.missing(self.name, self.log.path)
        if not _is_among(position, least, head):
            found = f"{position!r:.80}"
            raise PositionNotFoundError(
                f"{self.name!r}: expected a position from {least} to {head}, found {found}"
            )
        return position


def _while_open(log: LogHandle, items: Iterator[T]) -> Iterator[T]:
    # A log that nothing refers to is closed; in `open(path)["x"].entries()` only this generator does.
    yield from items


def _is_among(asked: object, least: int, last: int) -> bool:
    return isinstance(asked, int) and not isinstance(asked, bool) and least <= asked <= last
