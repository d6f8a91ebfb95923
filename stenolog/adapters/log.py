"""The log: many conversations in one SQLite file.

    with stenolog.open("talks.db") as log:
        log["demo"].append(UserMessage(text="Which test fails?"))

What may be shared: a `Log` and its conversations may be used by any number of threads, and a file by any
number of processes, each with its own `Log`; writers take turns, readers never wait for writers. A `Log`
must not be carried across a fork of the process: open the file again in the child. A network file
system is no place for the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from stenolog.domain.entry import Entry, check_name
from stenolog.domain.errors import ConversationExistsError, OperationalError, StoredDataError, StoreError

from .conversation import Conversation
from .queries import arguments
from .search.index import Index
from .store import blob_collection, checkpoints, conversation_rows, pins, reader
from .store.blob_collection import Collected
from .store.blobs import Blobs
from .store.bookmarks import Bookmarks
from .store.checkpoints import Checkpoints
from .store.conversation_rows import Order, Which
from .store.database import DEADLINE, Synchronous
from .store.eventsourcing_app import LogApplication
from .store.follow import follow
from .store.seals import Seals
from .store.sources import Sources, new_id, now, random_bytes
from .store.stream import Stream

if TYPE_CHECKING:
    from .maintenance.open_claims import OpenClaim
    from .queries.window_cache import WindowCache
    from .search.lookup import Hit

REMEMBERED = 1000
"""The number of conversations whose heads a log remembers."""


def open(
    path: str | os.PathLike[str],
    *,
    clock: Callable[[], datetime] = now,
    ids: Callable[[], str] = new_id,
    entropy: Callable[[int], bytes] = random_bytes,
    synchronous: Synchronous = "full",
    deadline: float = DEADLINE,
) -> Log:
    """Open the log in the file at `path`, or make one; ":memory:" keeps it in memory.

    `synchronous` "full": an append that has returned survives a power cut; "normal" can lose the last
    ones then, though never after a mere `kill -9`. No call waits longer than `deadline` seconds for others
    that write. `clock`, `ids` and `entropy` give times, entry ids and random bytes.

    Raises `NotADatabaseError`, `UnsupportedVersionError`, `CorruptLogError`, `StoreTimeoutError`,
    `StoreError`.
    """
    env = {
        "SQLITE_DBNAME": os.fspath(path),
        "SQLITE_SYNCHRONOUS": synchronous,
        "SQLITE_LOCK_TIMEOUT": str(deadline),
    }
    return Log(LogApplication(env, Sources(clock, ids, entropy)))


class Log:
    """The conversations of one file, by name: `log["demo"]`; iterating gives the names, the oldest first.

    `application` is the same log as an application of the `eventsourcing` library.
    """

    def __init__(self, application: LogApplication) -> None:
        self.application = application
        self.datastore = application.recorder.datastore
        self.edge = application.recorder.edge
        self.blobs = Blobs(self.datastore)
        self.seals = Seals(self.datastore.key)
        self.checkpoints = Checkpoints(self.datastore.file, self.seals)
        self.bookmarks = Bookmarks(self.datastore.file, self.seals)
        self.index = Index(self.datastore.file)
        self._streams: dict[int, Stream] = {}

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Log {self.path}>"

    @property
    def path(self) -> str:
        return self.datastore.path

    @cached_property
    def holding(self) -> WindowCache:
        """The windows that are held in memory for the next requests."""
        from .queries.window_cache import (
            WindowCache,  # late: a program that builds no request need not wait for it
        )

        return WindowCache()

    def close(self) -> None:
        """Give the file back; the write-ahead log is folded in."""
        if "holding" in vars(self) and not self.datastore.closed:
            from .queries.bookmarks import leave_all  # late, as above

            leave_all(self)
        self.bookmarks.close()
        self.checkpoints.close()
        self.index.close()
        self.blobs.pins.close()
        self.application.close()

    def __getitem__(self, name: str) -> Conversation:
        """The conversation of that name; one that does not exist yet is made by its first append."""
        check_name(name, what="conversation")
        with self.datastore.reading() as connection:
            key = conversation_rows.find(connection, name)
        return self.handle(Stream(name, key))

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        with self.datastore.reading() as connection:
            return conversation_rows.find(connection, name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return self.count()

    def names(
        self,
        *,
        archived: bool = False,
        begins: str = "",
        like: str = "",
        since: datetime | None = None,
        before: str = "",
        limit: int | None = None,
        order: Order = "oldest",
    ) -> list[str]:
        """The names of the conversations, the oldest first; with the archived ones or without.

        Fewer of them: `begins`, what a name begins with; `like`, what it holds, Latin letters of either case;
        `since`, an aware time that something was appended at or after; `before`, the name of one that all
        of these are older than; `limit`, at most so many, counted in `order`: "oldest" or "newest" by when
        they were begun, "latest" by the time of their last entries, "a-z" or "z-a" by name. With "latest",
        `before` goes by that time too, and of very many conversations those begun last are compared.
        Raises `InvalidEventError` for what is none of these.
        """
        if limit is not None:
            arguments.number("limit", limit)
        arguments.some_of("order", (order,), conversation_rows.ORDERS)
        which = self._which(archived, begins, like, since, before)._replace(by_time=order == "latest")
        with self.datastore.reading() as connection:
            return conversation_rows.names(connection, which, limit=limit, order=order)

    def count(
        self,
        *,
        archived: bool = False,
        begins: str = "",
        like: str = "",
        since: datetime | None = None,
        before: str = "",
        order: Order = "oldest",
    ) -> int:
        """Return the number of conversations; the arguments select some of them as for `names`."""
        arguments.some_of("order", (order,), conversation_rows.ORDERS)
        which = self._which(archived, begins, like, since, before)._replace(by_time=order == "latest")
        with self.datastore.reading() as connection:
            return conversation_rows.count(connection, which)

    @staticmethod
    def _which(archived: bool, begins: str, like: str, since: datetime | None, before: str) -> Which:
        for what, asked in (("begins", begins), ("like", like), ("before", before)):
            arguments.text(what, asked)
        return Which(archived, begins, like, arguments.instant("since", since), before)

    def search(
        self,
        query: str,
        *,
        conversation: str | None = None,
        agent: str | None = None,
        kinds: str | Sequence[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 20,
        newest: bool = False,
        progress: Callable[[int], object] = lambda _: None,
    ) -> list[Hit]:
        """The entries of any conversation, archived ones too, that say these words: the best of the newest
        2,000 of them first, or the newest first.

        Words are looked for together; `"a phrase"`, `begin*`, `this OR that`, `-without`. Case and accents
        do not matter. `conversation` finds what it inherits, too; `agent` what that agent said; `kinds` are
        those of events, or one; `since` and `until` are aware times. The first search of a log indexes it, a
        later one what was appended; `progress` is told how far that has come, in notification ids.

        Raises `InvalidEventError` for a query without a word and whatever else cannot be looked for, and
        `ConversationNotFoundError`.
        """
        from .search import lookup  # late: a program that looks for nothing need not wait for it

        found = lookup.search(
            self,
            query,
            conversation=conversation,
            agent=agent,
            kinds=kinds,
            since=since,
            until=until,
            limit=limit,
            by_age=newest,
            progress=progress,
        )
        return list(islice(found, arguments.number("limit", limit)))

    @property
    def newest(self) -> int:
        """The notification id of the last entry of any conversation; 0 while there is none."""
        with self.datastore.reading() as connection:
            return reader.newest(connection)

    def tail(self, timeout: float | None = None) -> Iterator[Entry]:
        """Each new entry of any conversation, in the order of their commits; ends as `Conversation.tail`."""
        unread = partial(reader.everything, self.datastore)
        return follow(self.datastore, unread, self.newest, timeout)

    def claims(self, conversation: str | None = None) -> list[OpenClaim]:
        """Return the effects that runners are at, in a conversation or everywhere, the oldest first.

        Raises `ConversationNotFoundError`.
        """
        from .maintenance import open_claims  # late, as above

        return open_claims.listed(self, conversation)

    def take_claims(self, conversation: str, owner: str | int | None = None) -> list[OpenClaim]:
        """Take the effects of a conversation from the runners that are at them, and return them.

        For a process that hangs: what it appends of these effects later is refused, and the next runner
        settles them as those of a dead one. `owner`: only those of this process id, or of this runner.
        Raises `ConversationNotFoundError`.
        """
        from .maintenance import open_claims  # late, as above

        return open_claims.take(self, conversation, owner)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the log into a new file, as it stands now, while others go on writing to it.

        Raises `StoreError` where the file exists or cannot be written; nothing is left behind then.
        """
        self.datastore.backup(Path(path))

    def handle(self, found: Stream) -> Conversation:
        """A handle on a stream; where the stream stands is remembered for the handles after it."""
        if found.key is None:
            return Conversation(self, found)
        if len(self._streams) >= REMEMBERED:
            self._streams.clear()
        stream = self._streams.setdefault(found.key, found)
        stream.name = found.name
        return Conversation(self, stream)

    def rename(self, stream: Stream, name: str) -> None:
        """See `Conversation.rename`."""
        key = self._existing(stream)
        with self.datastore.writing() as connection:
            if conversation_rows.find(connection, name) not in (None, key):
                raise ConversationExistsError(f"{name!r}: a conversation of this name exists already")
            conversation_rows.rename(connection, key, name)
        stream.name = name

    def archive(self, stream: Stream, *, at: int | None) -> None:
        """See `Conversation.archive`; `at` None takes it back."""
        key = self._existing(stream)
        with self.datastore.writing() as connection:
            conversation_rows.archive(connection, key, at)

    def delete(self, stream: Stream) -> None:
        """See `Conversation.delete`."""
        from .search.indexing import Source, forgetting  # late, as above

        key = self._existing(stream)
        source = Source(self.datastore, self.blobs)
        named = blob_collection.named_by(self.datastore, key)
        with forgetting(self.index, source, key), self.datastore.writing() as connection:
            if living := conversation_rows.forks(connection, key):
                raise ConversationExistsError(f"{stream.name!r}: forks of it exist: {', '.join(living[:5])}")
            conversation_rows.delete(connection, key)
        stream.head = None
        stream.recent = None
        self.purge(key, named)

    def forget(self, key: int) -> None:
        """Forget where a stream stands, and the entries of it that this process has appended."""
        stream = self._streams.get(key)
        if stream is not None:
            stream.head = stream.recent = None

    def purge(self, key: int, named: Collection[str]) -> None:
        """Remove what the log's files still have of words that were just deleted from a stream.

        `named` are the sha256 of blobs that they may have named. Where others are in the way, the blobs and
        the write-ahead log stay for the next `collect`.
        """
        if "holding" in vars(self):
            self.holding.drop(key)
        self.bookmarks.forget(key)
        for stream in (key, checkpoints.WHOLE_LOG):
            self.checkpoints.erase_stream(stream)
        with suppress(OperationalError, StoredDataError):
            if named and pins.SUPPORTED:
                blob_collection.collect(self.datastore, self.blobs.pins, named)
        with suppress(OperationalError):
            self.datastore.fold()

    def collect(self) -> Collected:
        """Remove the blobs that no entry names, and empty the write-ahead log.

        A blob that a living process has put stays until an entry names it or the process closes its log. One
        whose sha256 is kept outside of this log alone is removed. Raises `StoreTimeoutError`, `StoreError`
        (always on a system other than Linux).
        """
        if not pins.SUPPORTED:
            raise StoreError(f"{self.path}: whether a blob is in use is known on Linux alone")
        found = blob_collection.collect(self.datastore, self.blobs.pins)
        return found._replace(folded=self.datastore.fold())

    def _existing(self, stream: Stream) -> int:
        key = reader.resolve(self.datastore, stream)
        if key is None:
            raise arguments.missing(stream.name, self.path)
        return key
