"""Interface of every importer: the conversations of a file, each with its records and its converter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol, TypeAlias

from .event_writer import EventWriter
from .json_lines import JsonLinesReader, Record
from .steps import ExistingLog, Step


class Converter(Protocol):
    """Converter of one conversation's records into steps; its other members are for the report."""

    scribe: EventWriter
    beyond: Counter[str]
    decided: Counter[str]

    def take(self, record: Record) -> list[Step]: ...

    def end(self) -> list[Step]: ...


@dataclass
class SourceConversation:
    """One conversation of a file: `name` is its own, empty where it tells none; `make` begins a converter.

    `records` can be gone through more than once. `beyond` counts what stands beside the records and is no
    message. `failed` says why it cannot be read at all. `file` is its own, where there is one for each.
    `unit` is what the numbers of its records count.
    """

    name: str
    records: Iterable[Record]
    make: Callable[[ExistingLog], Converter]
    beyond: Counter[str] = field(default_factory=Counter)
    failed: str = ""
    file: Path | None = None
    unit: str = "message"


Reader: TypeAlias = Callable[[BinaryIO, JsonLinesReader], Iterator[SourceConversation]]
