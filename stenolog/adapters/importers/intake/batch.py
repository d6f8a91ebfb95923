"""Writing to several conversations at once: what comes in small pieces goes into few, large transactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stenolog.adapters.store.contract import appends
from stenolog.adapters.store.contract.values import PendingEntry, Share, Stream
from stenolog.domain.entry import NewEntry, check_name
from stenolog.domain.errors import CallerError

from .report import Imported

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log

BYTES = 4_000_000
"""The bytes of payloads and blobs that are written in one transaction."""
AROUND = 1_000
"""The bytes of memory that an entry takes beside its payload."""


@dataclass(eq=False)
class PendingWrites:
    """The pending writes to one conversation after `position`, its head; `found` reports the import.

    `marks` are those by which a later import finds the conversation again.
    """

    stream: Stream
    position: int
    found: Imported
    marks: tuple[str, ...] = ()
    items: list[PendingEntry] = field(default_factory=list)
    branches: list[int] = field(default_factory=list)
    """The positions up to which a branch is kept as a fork, with the items."""

    def wrote(self, position: int, forks: list[str]) -> None:
        """Note that all waiting entries are written, and where the conversation ends now."""
        self.found.appended += len(self.items)
        self.found.forks += forks
        self.position = position
        self.items, self.branches = [], []

    def refuse(self, why: CallerError) -> None:
        """Refuse the conversation: no more is written to it."""
        self.found.failed = str(why)
        self.items, self.branches = [], []


class Batch:
    """A batch of pending writes to a log, written once it is large enough, and with `flush`.

    A batch is one transaction. If a conversation cannot be written to, none of its writes is in it, and
    its report gives the reason.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self.lost: Exception | None = None
        """The error that kept the batch from being written: no file may be reported as imported after it."""
        self.writes = 0
        """The number of transactions committed."""
        self._clear()

    @property
    def is_empty(self) -> bool:
        return not (self._shares or self._blobs)

    def holds(self, name: str) -> bool:
        """Return whether writes to the conversation of that name are pending."""
        return any(share.stream.name == name for share in self._shares)

    def add(self, share: PendingWrites, draft: NewEntry, content: Mapping[str, bytes]) -> None:
        """Have a draft written, with its blobs by their sha256. Raises `InvalidEventError`."""
        self._blobs.update(content)
        item = appends.prepare(self.log.edge, draft)
        if not share.items:
            self._shares.append(share)
        share.items.append(item)
        self._size += len(item.state) + AROUND + sum(map(len, content.values()))
        if self._size >= BYTES:
            self.flush()

    def branch(self, share: PendingWrites, after: int) -> None:
        """Have a fork made up to a position, in the transaction of the draft that comes next."""
        share.branches.append(after)
        self._size += AROUND

    def flush(self) -> None:
        """Write the waiting entries; after an interrupt again, since none is written twice.

        Raises `StoreTimeoutError`, `StoreError`, and what tables in the log's file raise.
        """
        if self.lost is not None:
            raise self.lost
        if self.is_empty:
            return
        shares = [share for share in self._shares if share.items]
        try:
            ends = self.log.recorder.insert_batch([_to_share(share) for share in shares], self._blobs.items())
        except Exception as error:
            self.lost = error
            raise
        for share, end in zip(shares, ends, strict=True):
            share.refuse(end) if isinstance(end, CallerError) else share.wrote(*end)
        self._clear()
        self.writes += 1

    def _clear(self) -> None:
        self._shares: list[PendingWrites] = []
        self._blobs: dict[str, bytes] = {}
        self._size = 0


def _to_share(share: PendingWrites) -> Share:
    """Return the writes as the store takes them.

    Raises `InvalidEventError` for a fork's name that is too long.
    """
    branches = [(branch_name(share.stream.name, after), after) for after in share.branches]
    return Share(share.stream, share.items, share.position, branches, share.marks)


def branch_name(conversation: str, after: int) -> str:
    """Return the name of the fork that keeps a branch. Raises `InvalidEventError` where it is too long."""
    return check_name(f"{conversation}~{after}", what="fork")
