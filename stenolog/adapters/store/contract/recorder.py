"""The store's contract: the eventsourcing library's recorder, and what the log adds.

Everything is written and read through a `LogRecorder`. Another database's implementation subclasses it and
passes `tests/stores/contract`; nothing above `adapters/store` changes. Rules of all methods:

- What a method wrote is durable on return; if it raises, nothing was written. One error says that this is
  uncertain: a server lost during a commit and away until the deadline.
- Any number of threads and processes may call. No call waits longer than the log's deadline.
- Errors are those of `stenolog.domain.errors`, never a database's.
- Positions count from 1 without gaps; each digest includes the previous one.
- A stored event is an entry: originator id is the conversation's name, version the position.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from uuid import UUID

from eventsourcing.persistence import ProcessRecorder, StoredEvent, Tracking

from stenolog.domain.entry import Record
from stenolog.domain.errors import CallerError

from . import values
from .appends import Sources
from .inspection import Inspection
from .roles import BlobStore, ClaimStore, ConversationStore, DraftStore, ErasureStore


class LogRecorder(ProcessRecorder):
    """The store of one log. `edge` gives times, ids and salts of events that the library hands over."""

    edge: Sources
    path: str
    """The log as messages name it, without a password."""
    address: str
    """The text that opens the log in another process; never shown, for it may hold a password."""
    sidecar_path: str
    """The path that the names of the files beside the log begin with; ":memory:" if it has none."""
    is_private: bool
    """True if no other process can open this log."""
    conversations: ConversationStore
    erasure: ErasureStore
    blobs: BlobStore
    claims: ClaimStore
    drafts: DraftStore
    checked: dict[int, tuple[int, int]]
    """By the key of a stream: the first and the last position whose digests a read has checked."""

    # Appending

    @abstractmethod
    def insert_events(
        self, stored_events: Sequence[StoredEvent], *, tracking: Tracking | None = None, **kwargs: Any
    ) -> Sequence[int] | None:
        """Append as the library does; return notification ids. The log itself calls `append`.

        Events of any conversations, each at its version; a taken version or a gap is the library's
        `IntegrityError`. `tracking` is recorded in the same transaction.
        """

    @abstractmethod
    def append(
        self,
        items: Sequence[values.PendingEntry],
        stream: values.Stream,
        expected: int | None,
        fence: int | None = None,
        also: values.InTransaction | None = None,
    ) -> list[Record]:
        """Append after a stream's last entry; return the logged records, also of what was written before.

        A mode switch opens a conversation without entries. An existing id with the same content is not
        written again. `expected` is the stream's position if anything is written. `fence` is the claim that
        the events settle: it is deleted in the same transaction, with its draft. `also` is called in that
        transaction if it writes an event; a store in a file raises `StoreError` for it.

        Raises `VersionConflictError`, `DuplicateIdError`, `InvalidEventError`, `ConversationNotFoundError`,
        `ClaimLostError`, `StoreTimeoutError`, `StoreError`.
        """

    @abstractmethod
    def insert_later(
        self,
        items: Sequence[values.PendingEntry],
        wake: Callable[[], object],
        *,
        stream: values.Stream,
        expected: int | None = None,
    ) -> values.PendingInsert:
        """Append in another thread, and call `wake` when done.

        Appends of one caller keep their order; simultaneous ones share a commit and a call of their `wake`.
        """

    @abstractmethod
    def insert_batch(
        self, shares: Sequence[values.Share], blobs: Iterable[tuple[str, bytes]]
    ) -> list[values.Written | CallerError]:
        """Append to several conversations in one transaction, marked as imported.

        A refused share is left out, its error returned in its place. Existing branches are not created again.
        """

    @abstractmethod
    def insert_export(self, parts: Iterator[values.ExportPart]) -> None:
        """Write the parts of a verified export in one transaction, with their own digests.

        Raises `VersionConflictError` if a conversation is not where its `Continuation` says.
        """

    # Reading a conversation; of a fork, what it inherits comes first

    @abstractmethod
    def select_events(
        self,
        originator_id: UUID | str | values.Stream,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
        page: bool = False,
        topics: Sequence[str] = (),
    ) -> values.StoredEntries:
        """Return events of a conversation with `gt` < version <= `lte`, inherited ones too.

        `page`: some hundred of one stream, fewer long ones; empty at the end. `topics`: no other known
        topics, no erased entries.
        """

    @abstractmethod
    def select_records(self, stream: values.Stream, gt: int, lte: int) -> list[Record]:
        """Return the next page of a conversation as stored records, unchecked."""

    @abstractmethod
    def stretch(self, stream: values.Stream, gt: int, lte: int) -> tuple[int, values.Head] | None:
        """Count the next entries, some thousand at most, unread; return the last one's head too."""

    @abstractmethod
    def recent(self, stream: values.Stream, position: int, limit: int) -> list[values.Row]:
        """Return the stream's own rows from a position on; the first has no payload."""

    @abstractmethod
    def record_by_id(self, stream: values.Stream, id: str) -> Record | None:
        """Return the record with an entry id; a fork's own counts before an inherited one."""

    @abstractmethod
    def header(self, stream: values.Stream, position: int) -> tuple[str, int, bytes] | None:
        """Return id, time and digest of the stream's own entry, without its payload."""

    @abstractmethod
    def last_position(self, stream: values.Stream) -> int:
        """Return the stream's own last position, even if entries are unreadable."""

    @abstractmethod
    def is_inherited(self, stream: values.Stream, position: int) -> bool:
        """Return whether a fork inherits the position, so that it must have an entry."""

    def resolve(self, stream: values.Stream) -> int | None:
        """Return a stream's key, and note it there; None while it has no entries."""
        # Only a key that was found is kept: the conversation may begin at any moment.
        if stream.key is None:
            stream.key = self.conversations.find(stream.name)
        return stream.key

    @abstractmethod
    def head(self, stream: values.Stream) -> values.Head:
        """Return a conversation's head; `START` if it has no entries."""

    @abstractmethod
    def lineage(self, stream: values.Stream, last: int = values.LAST) -> tuple[values.Segment, ...]:
        """Return the segments of positions up to `last`: ancestors' first, always its own."""

    @abstractmethod
    def digest_at(self, stream: values.Stream, position: int) -> bytes | None:
        """Return the digest at a position; None if there is no such entry."""

    # Following the log: `select_notifications`, `max_notification_id` and `subscribe` are the library's

    @abstractmethod
    def committed(
        self, after: int, *, upto: int = values.LAST, key: int | None = None, limit: int = 64
    ) -> list[values.CommittedRow]:
        """Return at most `limit` entries after a notification id, in commit order.

        No smaller id is committed later. With `key`, that conversation's own entries after a position.
        """

    @abstractmethod
    def appended(self, behind: Mapping[int, int], limit: int = 16) -> list[values.CommittedRow]:
        """Return the next entries of streams, by key, after a position of each, at most `limit` each.

        In order of position within a stream. A missing stream has none.
        """

    @abstractmethod
    def listening(self, wake: Callable[[], object], *, drafts: bool = False) -> AbstractContextManager[None]:
        """Call `wake` soon after each commit of any process, possibly more often, and at the end.

        `drafts`: after drafts too; otherwise a store may omit these.
        """

    @abstractmethod
    def committed_at(self, notifications: Sequence[int]) -> list[values.CommittedRow]:
        """Return the entries with these notification ids that exist."""

    @abstractmethod
    def last_committed(self, upto: int = values.LAST) -> tuple[int, bytes]:
        """Return id and digest of the last entry up to a notification id; 0 and empty if none."""

    @abstractmethod
    def moment(self, after: int, limit: int) -> values.LogMoment:
        """Return the log at one moment: conversations, and commits after a notification id."""

    @abstractmethod
    def notification_bounds(self, segment: values.Segment) -> tuple[int, int]:
        """Return the notification ids of a segment's first and last entry; 0 if it has none."""

    def deletions(self) -> int:
        """Return a number that changes with each deletion, and is restored by a backup."""
        return self.load_cursor(values.DELETIONS).position

    # Imports

    @abstractmethod
    def imported(self, key: int) -> tuple[int, int]:
        """Return a stream's own first and last imported position; (0, 0) if none."""

    # Cursors of followers

    @abstractmethod
    def load_cursor(self, name: str, key: int = values.EVERYWHERE) -> values.Cursor:
        """Return a follower's cursor; the beginning if never saved."""

    @abstractmethod
    def save_cursor(self, name: str, to: values.Cursor, key: int = values.EVERYWHERE) -> None:
        """Note how far a follower has come."""

    # The store as a whole

    @property
    @abstractmethod
    def closed(self) -> bool:
        """True if the log was closed."""

    @property
    @abstractmethod
    def seal_key(self) -> bytes:
        """The secret that seals checkpoints beside the log; a copy has another."""

    @abstractmethod
    def inspect(self) -> AbstractContextManager[Inspection]:
        """Look at a log that may be damaged."""

    @abstractmethod
    def compact(self) -> bool:
        """Remove deleted words left beside the tables; return False if other processes prevent it."""

    @abstractmethod
    def backup(self, path: Path) -> None:
        """Copy the current log into a new file. Raises `StoreError`."""

    @abstractmethod
    def close(self) -> None:
        """Release the recorder's resources; the application closes the database."""
