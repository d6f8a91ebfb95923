"""Values exchanged between the log and its store, in any database."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, overload

from eventsourcing.persistence import StoredEvent

from stenolog.domain.entry import GENESIS, Record
from stenolog.domain.erasure import ERASED, SWITCH

InTransaction: TypeAlias = Callable[[Any, int], object]
"""A function that is given the connection of a transaction, and the key of the stream that it appends to."""
LAST = 2**62
"""A position beyond any there can be."""
DELETIONS = "deletions"
"""The name in `tracking` of a number that is another one after each deletion."""
EVERYWHERE = 0
"""A key of no conversation, for those who follow all of the log: their positions are its notification ids."""
Synchronous: TypeAlias = Literal["full", "normal"]
MEMORY = ":memory:"
# Not more, for thousands of conversations may be in use.
WRITTEN = 8
"""So many of the last entries that a process has appended are held for its next request."""
DEADLINE = 10.0
"""Seconds that a call waits for others by default."""


class Head(NamedTuple):
    """The head of a conversation: its last position, and the digest there."""

    position: int
    digest: bytes


START = Head(0, GENESIS)


class Stream:
    """Knowledge of this process about a conversation: name, key in the store, last known head.

    `key` and `head` are None while unknown. `alone`: it is known to be no fork. `written` are the last
    entries that this process has appended.
    """

    __slots__ = ("alone", "head", "key", "name", "written")

    def __init__(self, name: str, key: int | None = None) -> None:
        self.name = name
        self.key = key
        # An outdated head does no harm: an append at its position conflicts, and the head is read again.
        self.head: Head | None = None
        # Once true it stays true, since a conversation never becomes a fork.
        self.alone = False
        self.written: deque[Record] = deque(maxlen=WRITTEN)

    def forget(self) -> None:
        """Have the head and the entries read again."""
        self.head = None
        self.written.clear()


class Segment(NamedTuple):
    """A range of a conversation's positions, `after` < position <= `upto`, and their stream's key."""

    key: int
    after: int
    upto: int


class PendingEntry(NamedTuple):
    """An event to append, with everything drawn at the edge.

    `given`: the caller chose the id, and may be repeating an append.
    """

    topic: str
    state: bytes
    id: str
    time: int
    salt: bytes
    given: bool = False


Row: TypeAlias = tuple[Any, ...]


class StoredEntries(Sequence[StoredEvent]):
    """Result of `select_events`: a lazy sequence of the library's stored events.

    `rows` are the stored values: position, entry id, time in microseconds since 1970, digest, topic, payload,
    salt, the payload's size (None: its length), and an erased payload's hash.
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


class PendingInsert(Protocol):
    """An append in another thread; `done` when it is durable or refused."""

    done: bool

    def result(self) -> list[Record]:
        """Return the records. Raises the error that kept them from being written."""


class CommittedRow(NamedTuple):
    """An entry for a follower of the whole log; `notification` is its commit order.

    `payload` is None if erased or withheld; `topic` says which. `time` is in microseconds since 1970.
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

    Archived ones or not; a name's prefix or content (Latin letters of either case); the last entry's time
    from `since` to `until` (microseconds since 1970); those begun before the one of that name, or `by_time`
    those with older last entries.
    """

    archived: bool = False
    begins: str = ""
    like: str = ""
    since: int | None = None
    before: str = ""
    by_time: bool = False
    until: int | None = None


class ConversationKey(NamedTuple):
    """A conversation's key and name; `parent` and `fork_position` if it is a fork."""

    key: int
    name: str
    parent: int | None
    fork_position: int | None


class LogMoment(NamedTuple):
    """The log at one moment.

    Its conversations, last notification id, an entry's digest, and later commits.
    """

    conversations: list[ConversationKey]
    newest: int
    digest: bytes | None
    entries: list[CommittedRow]


class Cursor(NamedTuple):
    """A follower's progress: all entries up to `position`, and pieces of the next."""

    position: int = 0
    piece: int = 0


class Claim(NamedTuple):
    """A running effect.

    `fence` is its fencing number, 0 before it is taken; only the latest is valid. `effect` is "model", or
    "tool" with the call; `cause` the position that it answers; `key` its idempotency key; `owner` the runner;
    `at` microseconds since 1970; `receipt` that of a model's request, as JSON.
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
    """A claim, named as by `Claim`, with a row of its draft; `number` is 0 without one."""

    key: int
    fence: int
    lane: str
    effect: str
    cause: int
    attempt: int
    number: int
    said: bytes


class Share(NamedTuple):
    """A conversation's part of a batch: appends at `expected`, and forks to keep.

    `branches` are forks' names with the positions up to which they share. `marks` are cursors that get the
    conversation's key as position.
    """

    stream: Stream
    items: Sequence[PendingEntry]
    expected: int
    branches: Sequence[tuple[str, int]] = ()
    marks: Sequence[str] = ()


class Written(NamedTuple):
    """A conversation's head after a batch, and its new forks' names."""

    position: int
    forks: list[str]


class Continuation(NamedTuple):
    """The beginning of a conversation in an export to import.

    It is at `already` in the log; records up to `last` follow, none if equal. A missing fork of `parent` at
    `fork` is at `fork`: inherited entries do not follow. It must end with `digest`, if given.
    `imported` is the range that counts as imported (None: all missing ones, (0, 0): none). A new one gets its
    archive time, and its key as position of the cursors in `marks`. Of the entries without words, `withheld`
    are those that were not erased.
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
    withheld: frozenset[int] = frozenset()


class BlobContent(NamedTuple):
    """A blob of an export: its sha256 and its bytes."""

    sha: str
    content: bytes


ExportPart: TypeAlias = BlobContent | Continuation | Record


class Collected(NamedTuple):
    """Result of a collection: the number of removed blobs, and their bytes.

    `kept` counts unnamed blobs that a living process stored. `is_complete`: the write-ahead log has nothing
    of the removed ones.
    """

    blobs: int = 0
    bytes: int = 0
    kept: int = 0
    is_complete: bool = True
