"""The store's contract: the recorder of the eventsourcing library, with what the log needs beyond it.

Whatever is written or read goes through a `LogRecorder`. An implementation for another database subclasses
this, and passes `tests/stores/contract`; nothing above `adapters/store` changes for it. The rules that hold
for every method:

- What a method has written is durable when it returns, all of it; where it raises, nothing was written. One
  error is left: a server that was lost during a commit, and is away until the deadline. It says so.
- Any number of threads and processes may call at once. No call waits longer than the log's deadline.
- Errors are those of `stenolog.domain.errors`, never those of a database.
- A position counts from 1, without gaps; each entry's digest is made of the one before it.
- A stored event is an entry: its originator id is the name of the conversation, its version the position.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from uuid import UUID

from eventsourcing.persistence import ProcessRecorder, StoredEvent

from stenolog.domain.entry import Record
from stenolog.domain.errors import CallerError

from .appends import Sources
from .inspection import Inspection
from .roles import BlobStore, ClaimStore, ConversationStore, DraftStore, ErasureStore
from .values import (
    EVERYWHERE,
    LAST,
    CommittedRow,
    Cursor,
    ExportPart,
    Head,
    Inserted,
    InTransaction,
    LogMoment,
    PendingEntry,
    PendingInsert,
    Row,
    Segment,
    Share,
    StoredEntries,
    Stream,
    Written,
)


class LogRecorder(ProcessRecorder):
    """The store of one log. `edge` gives times, ids and salts of events that the library hands over."""

    edge: Sources
    path: str
    """The log as messages name it, without a password."""
    address: str
    """The text that opens the log in another process; never shown, for it may hold a password."""
    sidecar_path: str
    """The path that the names of the files beside the log begin with; ":memory:" where it has none."""
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
        self,
        stored_events: Sequence[StoredEvent],
        *,
        stream: Stream | None = None,
        expected: int | None = None,
        fence: int | None = None,
        also: InTransaction | None = None,
        **kwargs: Any,
    ) -> Sequence[int] | None:
        """Append events; return their notification ids.

        As the library calls it, without `stream`: the events of any conversations, each at exactly the
        version it names; a taken one, or a gap, is the library's `IntegrityError`. `tracking` is recorded in
        the same transaction.

        As the log calls it: `PendingEntry`s of one stream, behind its last entry, wherever that is; returns
        `Inserted`. A conversation without entries is opened by a mode switch. An event whose id stands there
        already with the same content is not written again. `expected` is the position that the conversation
        must stand at if anything is to be written. `fence` is the claim that the events settle: it goes in
        the same transaction, with its draft. `also` is called in the transaction that writes the events, and
        only if it writes one; a store in a file has no use for it, and raises `StoreError`.

        Raises `VersionConflictError`, `DuplicateIdError`, `InvalidEventError`, `ConversationNotFoundError`,
        `ClaimLostError`, `StoreTimeoutError`, `StoreError`.
        """

    def append(
        self,
        items: Sequence[PendingEntry],
        stream: Stream,
        expected: int | None,
        fence: int | None = None,
        also: InTransaction | None = None,
    ) -> list[Record]:
        """Call `insert_events` as the log does, and return the records as they are in the log."""
        inserted = self.insert_events(items, stream=stream, expected=expected, fence=fence, also=also)
        assert isinstance(inserted, Inserted)
        return inserted.records

    @abstractmethod
    def insert_later(
        self,
        items: Sequence[PendingEntry],
        wake: Callable[[], object],
        *,
        stream: Stream,
        expected: int | None = None,
    ) -> PendingInsert:
        """Have another thread append, and call `wake` when it is done.

        Appends of one caller keep their order; those made together share a commit and a call of their `wake`.
        """

    @abstractmethod
    def insert_batch(
        self, shares: Sequence[Share], blobs: Iterable[tuple[str, bytes]]
    ) -> list[Written | CallerError]:
        """Append to several conversations in one transaction, and mark the entries as imported.

        A share that is refused is left out, and its error returned in its place; the others are written. Of
        the branches, those whose names are taken are not made again.
        """

    @abstractmethod
    def insert_export(self, parts: Iterator[ExportPart]) -> None:
        """Write the parts of an export that was proved, in one transaction: records with their own digests.

        Raises `VersionConflictError` where a conversation does not stand where its `Continuation` says.
        """

    # Reading a conversation; of a fork, what it inherits comes first

    @abstractmethod
    def select_events(
        self,
        originator_id: UUID | str | Stream,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
        page: bool = False,
        topics: Sequence[str] = (),
    ) -> StoredEntries:
        """Return the events of a conversation with `gt` < version <= `lte`, inherited ones too.

        `page`: some hundred events of one stream, fewer where they are long; empty at the end. `topics`: no
        other known topics, and no erased entries.
        """

    @abstractmethod
    def select_records(self, stream: Stream, gt: int, lte: int) -> list[Record]:
        """Return the next page of a conversation as stored records, unchecked."""

    @abstractmethod
    def stretch(self, stream: Stream, gt: int, lte: int) -> tuple[int, Head] | None:
        """Count the next entries, some thousand at most, without reading them; the head at the last."""

    @abstractmethod
    def recent(self, stream: Stream, position: int, limit: int) -> list[Row]:
        """Return the rows of the stream itself from a position on; the first has no payload."""

    @abstractmethod
    def record_by_id(self, stream: Stream, id: str) -> Record | None:
        """Return the record with an entry id, the conversation's own before an inherited one."""

    @abstractmethod
    def header(self, stream: Stream, position: int) -> tuple[str, int, bytes] | None:
        """Return the header of an entry of the stream itself, without its payload: id, time, digest."""

    @abstractmethod
    def last_position(self, stream: Stream) -> int:
        """Return the last position of the stream itself, also where no entry can be read."""

    @abstractmethod
    def is_inherited(self, stream: Stream, position: int) -> bool:
        """Return whether a fork inherits the position, so that there must be an entry."""

    @abstractmethod
    def resolve(self, stream: Stream) -> int | None:
        """Return the key of a stream, which is noted in it; None while the conversation has no entries."""

    @abstractmethod
    def head(self, stream: Stream) -> Head:
        """Return the head of a conversation; `START` where it has no entries."""

    @abstractmethod
    def lineage(self, stream: Stream, last: int = LAST) -> tuple[Segment, ...]:
        """Return the segments that hold the positions up to `last`, ancestors' first and its own always."""

    @abstractmethod
    def digest_at(self, stream: Stream, position: int) -> bytes | None:
        """Return the digest at a position; None where the conversation has no such entry."""

    # Following the log: `select_notifications`, `max_notification_id` and `subscribe` are the library's

    @abstractmethod
    def committed(
        self, after: int, *, upto: int = LAST, key: int | None = None, limit: int = 64
    ) -> list[CommittedRow]:
        """Return the next entries behind a notification id in commit order, at most `limit`.

        No smaller id is committed later. With `key`, those of that conversation itself, behind a position.
        """

    @abstractmethod
    def appended(self, behind: Mapping[int, int], limit: int = 16) -> list[CommittedRow]:
        """Return the next entries of streams, by key, behind a position of each: at most `limit` of each.

        Those of one stream in the order of their positions. A stream that does not exist has none.
        """

    @abstractmethod
    def listening(self, wake: Callable[[], object], *, drafts: bool = False) -> AbstractContextManager[None]:
        """Have `wake` called soon after each commit of any process, perhaps without one, and at the end.

        `drafts`: also after drafts; without it a store may leave these out.
        """

    @abstractmethod
    def committed_at(self, notifications: Sequence[int]) -> list[CommittedRow]:
        """Return the entries with these notification ids that exist."""

    @abstractmethod
    def last_committed(self, upto: int = LAST) -> tuple[int, bytes]:
        """Return the last entry up to a notification id: id and digest; 0 and empty if there is none."""

    @abstractmethod
    def moment(self, after: int, limit: int) -> LogMoment:
        """Return the log at one moment: all conversations, and the commits behind a notification id."""

    @abstractmethod
    def notification_bounds(self, segment: Segment) -> tuple[int, int]:
        """Return the notification ids of a segment's first and last entry; 0 where it has none."""

    @abstractmethod
    def deletions(self) -> int:
        """Return a number that is another one after each deletion, and comes back with a backup."""

    # Imports

    @abstractmethod
    def imported(self, key: int) -> tuple[int, int]:
        """Return the first and the last imported position of a stream itself; (0, 0) for none."""

    # Cursors of followers

    @abstractmethod
    def load_cursor(self, name: str, key: int = EVERYWHERE) -> Cursor:
        """Return the cursor of a follower; the beginning if it never saved one."""

    @abstractmethod
    def save_cursor(self, name: str, to: Cursor, key: int = EVERYWHERE) -> None:
        """Note how far a follower has come."""

    # The store as a whole

    @property
    @abstractmethod
    def closed(self) -> bool:
        """True if the log was closed."""

    @property
    @abstractmethod
    def seal_key(self) -> bytes:
        """The secret that checkpoints beside the log are sealed with; it is another one in a copy."""

    @abstractmethod
    def inspect(self) -> AbstractContextManager[Inspection]:
        """Look at a log that may be damaged."""

    @abstractmethod
    def compact(self) -> bool:
        """Remove the rest of deleted words beside the tables; False if other processes keep it busy."""

    @abstractmethod
    def backup(self, path: Path) -> None:
        """Copy the current log into a new file. Raises `StoreError`."""

    @abstractmethod
    def close(self) -> None:
        """Release the recorder's resources; the application closes the database."""
