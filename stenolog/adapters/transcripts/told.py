"""What a reader makes of a file that holds whole conversations: each with its records and its converter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol, TypeAlias

from .lines import Reading, Record
from .scribe import Scribe
from .steps import Held, Step


class Converter(Protocol):
    """What turns the records of one conversation into steps; the rest is for the report."""

    scribe: Scribe
    beyond: Counter[str]
    decided: Counter[str]

    def take(self, record: Record) -> list[Step]: ...

    def end(self) -> list[Step]: ...


@dataclass
class Told:
    """One conversation of a file: `name` is its own, empty where it tells none; `make` begins a converter.

    `beyond` counts what stands beside the records and is no message.
    """

    name: str
    records: Iterable[Record]
    make: Callable[[Held], Converter]
    beyond: Counter[str] = field(default_factory=Counter)


Reader: TypeAlias = Callable[[BinaryIO, Reading], Iterator[Told]]
