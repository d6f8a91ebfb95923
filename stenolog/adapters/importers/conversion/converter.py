"""Interface of importers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol, TypeAlias

from stenolog.adapters.importers.door.json_lines import Json, JsonLinesReader, Record
from stenolog.domain.entry import EPOCH, NewEntry
from stenolog.domain.errors import CallerError
from stenolog.domain.events import Unknown

from .event_writer import EventWriter
from .steps import ExistingLog, Step


class Converter(Protocol):
    """Converter of a conversation's records to steps; other members are for the report."""

    writer: EventWriter
    ignored: Counter[str]
    decisions: Counter[str]

    def take(self, record: Record) -> list[Step]: ...

    def end(self) -> list[Step]: ...


class RecordConverter:
    """Base of converters: the writer, and counts for the report."""

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
    """A conversation of a file: `name` is its own or empty; `make` creates a converter.

    `records` can be iterated more than once. `ignored` counts other content. `failed` is the reason it is
    unreadable. `file` is its own file, if any. `unit` is what record numbers count.
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
    """Return a conversation of JSON objects, converted by `convert`: see `entry_converter`.

    `name` is empty if the file has none. The report counts values that are not objects.
    """
    objects = [Record(str(nth), value) for nth, value in enumerate(values, 1) if isinstance(value, dict)]
    others = Counter(type(value).__name__ for value in values if not isinstance(value, dict))
    return SourceConversation(name, objects, entry_converter(convert), others)


def entry_converter(
    convert: Callable[[Record], Iterable[NewEntry]],
) -> Callable[[ExistingLog], Converter]:
    """Return a `SourceConversation.make` of a function from a record to entries.

    An entry without an id is known by its record's line; one without a time has the previous one's. A record
    is skipped and reported with its line if the function raises `ValueError`, `LookupError`, `TypeError` or
    `AttributeError`.
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
