"""The values that pass between the log and its store, whatever database the store is in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, overload

from eventsourcing.persistence import StoredEvent

from stenolog.domain.entry import GENESIS, Record
from stenolog.domain.erasure import ERASED, SWITCH

InTransaction: TypeAlias = Callable[[Any, int], object]
"""A function that is given the connection of a transaction, and the key of the stream that it appends to."""
LAST = 2**62
"""A position beyond any there can be."""
EVERYWHERE = 0
"""A key of no conversation, for those who follow all of the log: their positions are its notification ids."""
Synchronous: TypeAlias = Literal["full", "normal"]
MEMORY = ":memory:"
DEADLINE = 10.0
"""Seconds that a call waits for others, unless told otherwise."""


class Head(NamedTuple):
    """The head of a conversation: its last position, and the digest there."""

    position: int
    digest: bytes


START = Head(0, GENESIS)


class Stream:
    """This process's knowledge of a conversation: its name, its key in the store, and its last known head.

    `key` and `head` are None while unknown. `alone`: the conversation is known to be no fork.
    """

    __slots__ = ("alone", "head", "key", "name")

    def __init__(self, name: str, key: int | None = None) -> None:
        self.name = name
        self.key = key
        # An outdated head does no harm: an append at its position conflicts, and the head is read again.
        self.head: Head | None = None
        # Once true it stays true, since a conversation never becomes a fork.
        self.alone = False


class Segment(NamedTuple):
    """A run of a conversation's positions, `after` < position <= `upto`, and the key of their stream."""

    key: int
    after: int
    upto: int


@dataclass(frozen=True, init=False)
class PendingEntry(StoredEvent):
    """An event on its way in: the library's stored event, with everything that is drawn at the edge.

    `given` tells whether the caller chose the id, and may therefore be repeating an append. The version is 0
    where the recorder gives the position; the conversation is said beside it.
    """

    id: str
    time: int
    salt: bytes
    given: bool

    def __init__(
        self, topic: str, state: bytes, id: str, time: int, salt: bytes, given: bool = False, version: int = 0
    ) -> None:
        # All at once: the __init__ of a frozen dataclass takes twice as long, and each append makes one.
        self.__dict__.update(originator_id="", originator_version=version, topic=topic, state=state)
        self.__dict__.update(id=id, time=time, salt=salt, given=given)


Row: TypeAlias = tuple[Any, ...]


class StoredEntries(Sequence[StoredEvent]):
    """The answer of `select_events`: a sequence of the library's stored events.

    They are made when they are looked at. `rows` are what they are made of, as it is stored: position, entry
    id, time in microseconds since 1970, digest, topic, payload, salt, the payload's size (None: its length),
    and the hash of a payload that was erased.
    """

    __slots__ = ("name", "rows")

    def __init__(self, name: str, rows: list[Row]) -> None:
        self.name = name
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> StoredEvent: ...
    @overload
    def __getitem__(self, index: slice) -> StoredEntries: ...
    def __getitem__(self, index: int | slice) -> StoredEvent | StoredEntries:
        if isinstance(index, slice):
            return StoredEntries(self.name, self.rows[index])
        position, _, _, _, topic, payload, _, _, erased = self.rows[index]
        if erased is not None and not (payload and topic == SWITCH):
            topic, payload = ERASED, b""
        return StoredEvent(self.name, position, topic, payload)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr([*self])


class Inserted(Sequence[int]):
    """The answer of `insert_events` to the log: notification ids, as the library wants them.

    `records` are the entries as they stand in the log, one for each event, also where it was written before.
    The ids are looked up when they are asked for, which the log does not do.
    """

    __slots__ = ("_ids", "_look_up", "records")

    def __init__(self, records: list[Record], look_up: Callable[[list[Record]], list[int]]) -> None:
        self.records = records
        self._look_up = look_up
        self._ids: list[int] | None = None

    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        # Looked up late: the log itself never asks, and the look-up is a query.
        if self._ids is None:
            self._ids = self._look_up(self.records)
        return self._ids[index]


class PendingInsert(Protocol):
    """An append that another thread makes; `done` says that it is durable, or refused."""

    done: bool

    def result(self) -> list[Record]:
        """Return the records. Raises the error that kept them from being written."""


class CommittedRow(NamedTuple):
    """An entry as a follower of the whole log meets it; `notification` says in which order of commits.

    `payload` is None once it was erased. `time` is in microseconds since 1970.
    """

    notification: int
    key: int
    name: str
    position: int
    id: str
    time: int
    digest: bytes
    topic: str
    payload: bytes | None


Order: TypeAlias = Literal["oldest", "newest", "latest", "a-z", "z-a"]


class Which(NamedTuple):
    """A selection of conversations.

    With the archived ones or without; those whose names begin so, or contain this (Latin letters of either
    case); those whose last entry is not before `since`, and not after `until` (microseconds since 1970);
    those begun before the one of that name, or `by_time` those whose last entries are older.
    """

    archived: bool = False
    begins: str = ""
    like: str = ""
    since: int | None = None
    before: str = ""
    by_time: bool = False
    until: int | None = None


class ConversationKey(NamedTuple):
    """A conversation as others are told of it: `parent` and `fork_position` where it is a fork."""

    key: int
    name: str
    parent: int | None
    fork_position: int | None


class LogMoment(NamedTuple):
    """The log at one moment.

    It has its conversations, its last notification id, the digest of an entry, and the commits behind it.
    """

    conversations: list[ConversationKey]
    newest: int
    digest: bytes | None
    entries: list[CommittedRow]


class Cursor(NamedTuple):
    """All entries up to `position` are done with, and so many pieces of the one behind it."""

    position: int = 0
    piece: int = 0


class Claim(NamedTuple):
    """An effect that somebody is at.

    `fence` is its fencing number, 0 before it is taken; it grows, and whoever has not the latest is out.
    `effect` is "model", or "tool" with the call; `cause` the position that it answers; `key` its idempotency
    key; `owner` the runner; `at` microseconds since 1970; `receipt` that of a model's request, as JSON.
    """

    fence: int
    lane: str
    effect: str
    cause: int
    attempt: int
    key: str
    owner: str
    at: int
    receipt: bytes = b""


class DraftRow(NamedTuple):
    """A claim, named as by `Claim`, with a row of its draft; `number` is 0 where it has none."""

    key: int
    fence: int
    lane: str
    effect: str
    cause: int
    attempt: int
    number: int
    said: bytes


class Share(NamedTuple):
    """One conversation's part in a batch: what is appended at `expected`, and the forks to keep.

    `branches` are the names of the forks, each with the position up to which it shares the conversation.
    `marks` are the names of cursors that get the key of the conversation as their position.
    """

    stream: Stream
    items: Sequence[PendingEntry]
    expected: int
    branches: Sequence[tuple[str, int]] = ()
    marks: Sequence[str] = ()


class Written(NamedTuple):
    """A conversation's head after a batch, and the names of the forks made of it."""

    position: int
    forks: list[str]


class Continuation(NamedTuple):
    """The beginning of one conversation in an export that is imported.

    It is at `already` in the log, and the records up to `last` follow. Where no record is missing, `last` is
    `already`. A fork of `parent` at `fork` that is not there is at `fork`: what it inherits does not follow.

    `digest` is the one that it must have in the end; empty for any. `imported` is the range of positions that
    count as imported (None: all that were missing, (0, 0): none). A new one gets the time at which it was
    archived, and the cursors of the names in `marks` get its key as their position.
    """

    name: str
    already: int
    last: int
    parent: str = ""
    fork: int = 0
    digest: bytes = b""
    imported: tuple[int, int] | None = None
    archived_at: int | None = None
    marks: tuple[str, ...] = ()


class BlobContent(NamedTuple):
    """A blob of an export: its sha256 and its bytes."""

    sha: str
    content: bytes


ExportPart: TypeAlias = BlobContent | Continuation | Record


class Collected(NamedTuple):
    """The result of a collection: the number of blobs removed, and their bytes.

    `kept` counts the blobs that no entry names yet, but that a living process has stored. `is_complete`: the
    write-ahead log holds nothing of the removed blobs any more.
    """

    blobs: int = 0
    bytes: int = 0
    kept: int = 0
    is_complete: bool = True
