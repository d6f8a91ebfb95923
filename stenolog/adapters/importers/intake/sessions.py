"""Conversations on their way from converters into the log."""

from __future__ import annotations

from collections.abc import Callable

from stenolog.adapters.importers.conversion.converter import Converter
from stenolog.adapters.importers.conversion.steps import Append, ExistingLog, Step, read_existing
from stenolog.adapters.importers.detection.formats import LineFormat
from stenolog.adapters.importers.door.json_lines import Record, Skipped
from stenolog.domain.errors import CallerError

from . import known_sessions
from .batch import Batch, PendingWrites, branch_name
from .known_sessions import Naming, Place
from .report import Imported, LeftOut


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
        self._conversation = batch.log[name]
        known = read_existing(self._conversation.entries())
        self._share = PendingWrites(self._conversation.stream, known.head, self.found, place.marks)
        self._converter = make(known)

    def take(self, record: Record) -> None:
        """Take one record in; one that cannot be converted is skipped and reported."""
        if self.found.failed:
            return
        try:
            self._apply(self._converter.take(record))
        except CallerError as error:
            self._share.refuse(error)
        except (ValueError, ArithmeticError, RecursionError) as error:
            reason = f"cannot be taken down: {_first_line(error)}"
            self.found.skipped.append(Skipped(record.number, reason, self._unit))

    def end(self) -> Imported:
        """Finish the file, and return what is imported of the conversation once the batch is written."""
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

    A record that names no session belongs to that of the record before it; records before the first session
    belong to it.
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
