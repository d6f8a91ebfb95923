"""Converted conversations on their way into the log: many small pieces in few transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stenolog.adapters.importers.conversion.converter import Converter
from stenolog.adapters.importers.conversion.steps import Append, ExistingLog, Step, read_existing
from stenolog.adapters.importers.door.json_lines import Record, Skipped
from stenolog.adapters.importers.formats import LineFormat
from stenolog.adapters.store.contract import appends
from stenolog.adapters.store.contract.values import PendingEntry, Share, Stream
from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.domain.entry import NewEntry, check_name
from stenolog.domain.errors import CallerError

from . import known_sessions
from .known_sessions import Naming, Place
from .report import Imported, LeftOut

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log

BYTES = 4_000_000
"""The bytes of payloads and blobs that are written in one transaction."""
AROUND = 1_000
"""The bytes of memory that an entry takes beside its payload."""


@dataclass(eq=False)
class PendingWrites:
    """Pending writes to a conversation after `position`, its head; `found` reports the import.

    `marks` let a later import find the conversation.
    """

    stream: Stream
    position: int
    found: Imported
    marks: tuple[str, ...] = ()
    items: list[PendingEntry] = field(default_factory=list)
    branches: list[int] = field(default_factory=list)
    """The positions up to which a branch is kept as a fork, with the items."""

    def wrote(self, position: int, forks: list[str]) -> None:
        """Note that all pending entries are written, and the new head."""
        self.found.appended += len(self.items)
        self.found.forks += forks
        self.position = position
        self.items, self.branches = [], []

    def refuse(self, why: CallerError) -> None:
        """Refuse the conversation: no more is written to it."""
        self.found.failed = str(why)
        self.items, self.branches = [], []


class Batch:
    """Pending writes to a log, written once large enough, and by `flush`.

    A batch is one transaction. If a conversation cannot be written, none of its writes is in it, and its
    report has the reason.
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
        """Add a draft with its blobs by sha256. Raises `InvalidEventError`."""
        self._blobs.update(content)
        item = appends.prepare(self.log.edge, draft)
        if not share.items:
            self._shares.append(share)
        share.items.append(item)
        self._size += len(item.state) + AROUND + sum(map(len, content.values()))
        if self._size >= BYTES:
            self.flush()

    def branch(self, share: PendingWrites, after: int) -> None:
        """Add a fork up to a position, in the next draft's transaction."""
        share.branches.append(after)
        self._size += AROUND

    def flush(self) -> None:
        """Write the pending entries; after an interrupt again, none twice.

        Raises `StoreTimeoutError`, `StoreError`, and errors of tables in the log's file.
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
    """Return the name of a branch's fork. Raises `InvalidEventError` if too long."""
    return check_name(f"{conversation}~{after}", what="fork")


class ConversationImport:
    """One conversation on its way from a converter into the log."""

    def __init__(
        self, batch: Batch, place: Place, make: Callable[[ExistingLog], Converter], unit: str = "line"
    ) -> None:
        name = place.name
        self.found = Imported(name)
        self._place = place
        self._unit = unit
        self._batch = batch
        if batch.holds(name):
            batch.flush()
        # By its number: deleted or renamed since it was found, it must not begin anew under that name.
        stream = batch.log.stream(name) if place.key is None else Stream(name, place.key)
        self._conversation = StreamHandle(batch.log, batch.log.streams.share(stream))
        known = read_existing(self._conversation.entries())
        self._share = PendingWrites(self._conversation.stream, known.head, self.found, place.marks)
        self._converter = make(known)

    def take(self, record: Record) -> None:
        """Convert a record; one that fails is skipped and reported."""
        if self.found.failed:
            return
        try:
            self._apply(self._converter.take(record))
        except CallerError as error:
            self._share.refuse(error)
        except (ValueError, ArithmeticError, RecursionError) as error:
            reason = f"cannot be taken down: {_first_line(error)}"
            self.found.skipped.append(Skipped(record.number, reason, self._unit))

    def add(self, draft: NewEntry, blobs: Mapping[str, bytes]) -> None:
        """Append an entry of the caller's after those of the file, unless the conversation was refused."""
        if not self.found.failed:
            self._batch.add(self._share, draft, blobs)

    @property
    def position(self) -> int:
        """The head after what was written."""
        return self._share.position

    @property
    def can_go_on(self) -> bool:
        """True unless the end closed what more records may continue."""
        return self._converter.writer.can_go_on

    def go_on(self) -> None:
        """Go on with more records, once the batch with the caller's entry is written."""
        self._converter.writer.go_on(self._share.position)

    def end(self) -> Imported:
        """Finish the file; return what is imported once the batch is written."""
        if not self.found.failed:
            try:
                self._apply(self._converter.end())
                self._apply(self._converter.writer.finish())
            except CallerError as error:
                self._share.refuse(error)
        self.found.ignored = self._converter.ignored
        self.found.decisions = self._converter.decisions
        self.found.already = self._converter.writer.already
        if self.found.already and not (self.found.failed or self.found.appended or self._share.items):
            known_sessions.note(self._batch.log, self._place)
        return self.found

    def _apply(self, steps: list[Step]) -> None:
        for step in steps:
            if isinstance(step, Append):
                self._batch.add(self._share, step.draft, step.blobs)
            else:
                branch_name(self._conversation.name, step.after)
                self._batch.branch(self._share, step.after)
            if self.found.failed:
                return


class Sessions:
    """The sessions of a JSON Lines file.

    A record without a session belongs to the previous record's, or at the start to the first.
    """

    def __init__(self, batch: Batch, format: LineFormat, naming: Naming) -> None:
        self._batch = batch
        self._format = format
        self._naming = naming
        self._intakes: dict[str, ConversationImport | None] = {}
        """The sessions so far; None for one that was deleted."""
        self._now: ConversationImport | None = None
        self._early: list[Record] = []
        self.left_out: list[LeftOut] = []

    def send(self, record: Record) -> None:
        """Give a record to the session that it belongs to."""
        own = self._format.name_of(record.value, bool(self._intakes))
        if own:
            self._go_to(own)
        if not self._intakes:
            self._early.append(record)
        elif self._now is not None:
            self._now.take(record)

    def end(self) -> list[Imported]:
        """Finish the file, and return what is imported of its sessions."""
        if self._early:
            self._go_to("")
        return [intake.end() for intake in self._intakes.values() if intake is not None]

    def _go_to(self, own: str) -> None:
        if own not in self._intakes:
            self._intakes[own] = self._intake(self._naming.find_place(own))
        self._now = self._intakes[own]
        early, self._early = self._early, []
        if self._now is not None:
            for record in early:
                self._now.take(record)

    def _intake(self, place: Place) -> ConversationImport | None:
        if not place.is_deleted:
            return ConversationImport(self._batch, place, self._format.make)
        self.left_out.append(LeftOut(place.name, place.marks[0]))
        return None


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
