"""Definition of a table, its columns and a pure function from an entry to its rows, and tables by name.

scores = Table(
    "scores",
    columns={"conversation": CONVERSATION, "mail": str, "score": float},
    rows=lambda entry: [{"mail": entry.id, "score": score} for score in scores_in(entry)],
)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias

from stenolog.adapters.plugins import LazyRegistry
from stenolog.domain.base.model import in_utc
from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError, TableError

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
USED = {"stream", "position", "nth", "key", "gone"}
"""Columns that every table has beneath its view."""
TAKEN = {
    "conversations",
    "stored_events",
    "blobs",
    "claims",
    "drafts",
    "tracking",
    "checkpoints",
    "history",
    "secret",
}
"""Names that the log itself uses."""
LARGEST = 2**63
LONGEST_KEY = 500
"""Characters. PostgreSQL takes 2,700 bytes of an index's row at most."""
TYPES: dict[type, str] = {
    str: "TEXT",
    int: "BIGINT",
    float: "DOUBLE PRECISION",
    bool: "BOOLEAN",
    bytes: "BLOB",
    datetime: "TEXT",
}
"""The types of columns, as SQLite calls them; PostgreSQL has names of its own for some."""
KINDS = ", ".join(kind.__name__ for kind in TYPES)


class EntryContext(Enum):
    """A column filled from a row's conversation."""

    CONVERSATION = "conversation"
    POSITION = "position"

    def __repr__(self) -> str:
        return self.name


CONVERSATION: Final = EntryContext.CONVERSATION
"""A column with the name that the row's conversation has now."""
POSITION: Final = EntryContext.POSITION
"""A column with the position of the entry that made the row."""
Value: TypeAlias = str | int | float | bool | bytes | datetime | None
Column: TypeAlias = type | EntryContext


class Delete(NamedTuple):
    """A row's value that removes the row with this key."""

    key: str | int


Rows: TypeAlias = Callable[[Entry], Iterable[Mapping[str, Value] | Delete]]


class RowOf(NamedTuple):
    """A stored row, replaced by a later one with its key; `values` None removes it."""

    nth: int
    key: str
    values: tuple[Value, ...] | None


@dataclass(frozen=True)
class Table:
    """An SQL table that follows the log.

    `columns` gives types (`str`, `int`, `float`, `bool`, `bytes`, `datetime`), `CONVERSATION` or `POSITION`.
    `rows` returns an entry's rows; it must be pure and fast, and gets no conversation name, which may change.
    With `key`, a column's name, a row replaces an earlier one of the conversation with the same value, and
    `Delete(value)` removes it. An edit's rows always replace those of what it edits. Another `version` or
    other columns recreate the table. `indexes` names columns to look up by. Raises `CallerError`.
    """

    name: str
    columns: Mapping[str, Column]
    rows: Rows
    key: str = ""
    version: int = 1
    indexes: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.name != self.name.lower():  # SQLite tells no Orders from orders
            raise CallerError(f"expected a name in lower case, found {self.name!r:.60}")
        for what in (self.name, *self.columns):
            if not NAME.fullmatch(what):
                raise CallerError(f"{self.name!r}: expected a name of letters and digits, found {what!r:.60}")
        if len({name.lower() for name in self.columns}) < len(self.columns):
            raise CallerError(f"{self.name}: two columns differ in case alone: {', '.join(self.columns)}")
        if taken := [name for name in self.declared_columns if name.lower() in USED]:
            raise CallerError(f"{self.name}: tables use this name of a column themselves: {taken[0]!r}")
        if self.name in TAKEN or self.name.startswith(("sqlite_", "stenolog_", "pg_")):
            raise CallerError(f"{self.name!r}: the log itself has a table of this name")
        for name, column in self.columns.items():
            if column not in TYPES and not isinstance(column, EntryContext):
                raise CallerError(f"{self.name}.{name}: expected one of {KINDS}, found {column!r:.60}")
        for name in (*self.indexes, *([self.key] if self.key else [])):
            if name not in self.declared_columns:
                raise CallerError(f"{self.name}: expected a column of its own, found {name!r}")

    @property
    def declared_columns(self) -> dict[str, type]:
        """The columns that its function gives."""
        return {name: column for name, column in self.columns.items() if isinstance(column, type)}

    @property
    def signature(self) -> str:
        """The definition as text; a change rebuilds the table."""
        columns = (
            f"{name} {column.__name__ if isinstance(column, type) else column!r}"
            for name, column in self.columns.items()
        )
        more = [f"key {self.key}, less what was edited"] * bool(self.key) + [
            f"index {name}" for name in self.indexes
        ]
        return "; ".join([f"version {self.version}", *columns, *more])

    def rows_of(self, entry: Entry, first: Callable[[int], str]) -> list[RowOf]:
        """Return an entry's rows; `first` returns the key of the rows at a position.

        Raises `TableError` if the table's function fails or returns an invalid row.
        """
        given = self._rows_of(entry)
        if self.key:
            latest = dict(map(self._keyed, given))
            return [RowOf(nth, key, values) for nth, (key, values) in enumerate(latest.items())]
        edited = edited_by(entry)
        key = first(edited) if edited else str(entry.position)
        made = [RowOf(nth, key, self._values(one)) for nth, one in enumerate(given)]
        return made or ([RowOf(0, key, None)] if edited else [])

    def _rows_of(self, entry: Entry) -> list[Mapping[str, Value] | Delete]:
        """Return the rows of the table's own function; its exceptions are its own fault."""
        try:
            return list(self.rows(entry._replace(conversation="")))
        except Exception as error:
            raise TableError(f"{type(error).__name__}: {error}") from error

    def _keyed(self, given: Mapping[str, Value] | Delete) -> tuple[str, tuple[Value, ...] | None]:
        values = None if isinstance(given, Delete) else self._values(given)
        told = given.key if isinstance(given, Delete) else given.get(self.key)
        key = self._checked(self.key, self.declared_columns[self.key], told)
        if key is None:
            raise TableError(f"{self.name}: expected a row with its key {self.key!r}, found none")
        return _short(str(key)), values

    def _values(self, given: Mapping[str, Value] | Delete) -> tuple[Value, ...]:
        if isinstance(given, Delete):
            raise TableError(f"{self.name}: Delete needs a table with a key")
        if strangers := set(given) - set(self.declared_columns):
            raise TableError(f"{self.name}: no such column: {', '.join(sorted(strangers))}")
        return tuple(
            self._checked(name, kind, given.get(name)) for name, kind in self.declared_columns.items()
        )

    def _checked(self, name: str, kind: type, value: Value) -> Value:
        """Return the value if it has the column's type: databases accept different ones."""
        match value:
            case None:
                return None
            case str() if kind is str:
                value.encode()  # a lone surrogate would be refused much later
                return value
            case datetime(tzinfo=zone) if kind is datetime and zone is not None:
                return in_utc(value)
            case bool() | bytes() | float() if kind is type(value) and value == value:  # a NaN is not itself
                return value
            case int() if kind in (int, float) and -LARGEST <= value < LARGEST:
                return float(value) if kind is float else int(value)
            case _:
                pass
        raise TableError(f"{self.name}.{name}: expected {kind.__name__}, found {type(value).__name__}")


def edited_by(entry: Entry) -> int:
    """Return the position that an entry edits; 0 if none."""
    edited = getattr(entry.event, "replaces", None) or 0
    return edited if edited < entry.position else 0


def _short(key: str) -> str:
    return key if len(key) <= LONGEST_KEY else sha256(key.encode()).hexdigest()


TABLES: LazyRegistry[Table] = LazyRegistry("a table")
"""Every table that a plugin has registered."""
