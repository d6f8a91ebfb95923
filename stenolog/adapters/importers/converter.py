"""Interface of every importer: conversations of a file, each with a name, records and a converter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeAlias

from stenolog.domain.entry import EPOCH, NewEntry
from stenolog.domain.errors import CallerError
from stenolog.domain.events import Unknown
from stenolog.projections.messages.json_fields import conversation_name

from . import known_sessions
from .event_writer import EventWriter
from .json_lines import Json, JsonLinesReader, Record
from .known_sessions import Place
from .steps import ExistingLog, Step, read_existing

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation, Log


class Converter(Protocol):
    """Converter of one conversation's records into steps; its other members are for the report."""

    writer: EventWriter
    ignored: Counter[str]
    decisions: Counter[str]

    def take(self, record: Record) -> list[Step]: ...

    def end(self) -> list[Step]: ...


class RecordConverter:
    """The part that converters share: their writer, and what the report counts."""

    def __init__(self, writer: EventWriter) -> None:
        self.writer = writer
        self.ignored: Counter[str] = Counter()
        self.decisions: Counter[str] = Counter()

    def end(self) -> list[Step]:
        """Return the steps left at the end."""
        self.writer.close()
        return self.writer.drain()


@dataclass
class SourceConversation:
    """One conversation of a file: `name` is its own, empty where it tells none; `make` begins a converter.

    `records` can be gone through more than once. `ignored` counts what stands beside the records and is no
    message. `failed` says why it cannot be read at all. `file` is its own, where there is one for each.
    `unit` is what the numbers of its records count.
    """

    name: str
    records: Iterable[Record]
    make: Callable[[ExistingLog], Converter]
    ignored: Counter[str] = field(default_factory=Counter)
    failed: str = ""
    file: Path | None = None
    unit: str = "message"


Reader: TypeAlias = Callable[[BinaryIO, JsonLinesReader], Iterator[SourceConversation]]


def source_conversation(
    values: Sequence[Json], convert: Callable[[Record], Iterable[NewEntry]], name: str = ""
) -> SourceConversation:
    """Return a conversation of JSON objects, each of which `convert` makes entries of: see `entry_converter`.

    `name` is empty where the file tells none. Values that are no objects are counted in the report.
    """
    objects = [Record(str(nth), value) for nth, value in enumerate(values, 1) if isinstance(value, dict)]
    others = Counter(type(value).__name__ for value in values if not isinstance(value, dict))
    return SourceConversation(name, objects, entry_converter(convert), others)


def entry_converter(
    convert: Callable[[Record], Iterable[NewEntry]],
) -> Callable[[ExistingLog], Converter]:
    """Return a converter for `SourceConversation.make` of a function from a record to its entries.

    An entry without an id is known by its record's line, one without a time has that of the entry before it.
    A record of which the function raises a `ValueError`, or that is of another shape than it expects
    (`LookupError`, `TypeError`, `AttributeError`), is skipped, and stands in the report with its line.
    """
    return lambda log: _EntryConverter(convert, log)


class _EntryConverter(RecordConverter):
    """The converter that `entry_converter` makes."""

    def __init__(self, convert: Callable[[Record], Iterable[NewEntry]], log: ExistingLog) -> None:
        super().__init__(EventWriter("", "", log))
        self._convert = convert
        self._time = EPOCH

    def take(self, record: Record) -> list[Step]:
        for nth, entry in enumerate(self._entries(record), 1):
            if isinstance(entry.event, Unknown):
                raise CallerError(f"expected an event of this release, found {entry.event.topic}")
            self._time = entry.time or self._time
            self.writer.write(entry.event, entry.id or f"line-{record.line}-{nth}", self._time)
        return self.writer.drain()

    def _entries(self, record: Record) -> list[NewEntry]:
        try:
            return list(self._convert(record))
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error


class Naming:
    """Names for the conversations of a file: the name asked for, else their own.

    One that the log has by the name asked for keeps it, wherever it stands in the file by now. `is_alone`:
    there is no other in the file, so that what the log has by that name is to be this one.

    `file` is the place in which the conversations' own names are unique; without it no conversation is found
    again by its id. With `is_session`, their own names are the ids of sessions, unique everywhere. With
    `again`, deleted conversations are imported again.
    """

    def __init__(
        self,
        log: Log,
        stem: str,
        asked: str | None,
        *,
        file: str = "",
        is_session: bool = False,
        again: bool = False,
    ) -> None:
        self._log = log
        self._file = file
        self._is_session = is_session
        self._again = again
        self._stem = stem
        self._asked = [] if asked is None else [asked]
        self._used: set[str] = set()
        self.is_alone = True

    def find_place(self, own: str, is_held: Callable[[Conversation], bool] = lambda _: False) -> Place:
        """Return the place of another conversation: where an earlier import put it, else by its name."""
        id = own if own and self._is_session else self._file and f"{self._file}\n{own}"
        if not id:
            return Place(self.name(own, is_held))
        first = known_sessions.mark_of(id)
        mark = known_sessions.mark_of("\n".join([id, *self._asked])) if self._asked else first
        if (now := known_sessions.name_now(self._log, mark)) is not None:
            self._used.add(now)
            return Place(now, (mark,))
        usual = conversation_name(own or self._stem)
        # One that came back by its own export is there by its name.
        is_back = bool(own) and self._is_session and usual in self._log
        if not (self._again or is_back) and known_sessions.is_deleted(self._log, mark):
            return Place(usual, (mark,), is_deleted=True)
        # A copy under a name that was asked for is not the session's, where it is in the log already.
        is_copy = bool(self._asked) and known_sessions.name_now(self._log, first) is not None
        return Place(self.name(own, is_held), (mark,) if is_copy else tuple(dict.fromkeys((mark, first))))

    def name(self, own: str, is_held: Callable[[Conversation], bool] = lambda _: False) -> str:
        """Return a name for another conversation, whose own name may be empty or already in the log."""
        inner = "/".join([*self._asked, conversation_name(own or self._stem)])
        kept = (name for name in (*self._asked, inner) if self._asked and name in self._log)
        free = self._asked if self.is_alone or not any(name in self._log for name in self._asked) else []
        names = chain(free, [inner], (f"{inner}-{number}" for number in count(2)))
        found = next((name for name in kept if name not in self._used and is_held(self._log[name])), None)
        name = found or next(name for name in names if name not in self._used)
        self._used.add(name)
        return name


def is_held(told: SourceConversation, conversation: Conversation) -> bool:
    """Return whether a conversation of the log is the one in the file.

    It is if it has more than the settings in common with the file.
    """
    converter = told.make(read_existing(conversation.entries()))
    try:
        for record in told.records:
            with suppress(ValueError, ArithmeticError, RecursionError):
                converter.take(record)
        converter.end()
    except CallerError:
        return False
    return converter.writer.already > 1
