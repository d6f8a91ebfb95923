"""The database of a command: a file, or on a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import click

from stenolog.adapters.store.contract import address
from stenolog.domain.errors import InvalidEventError


class ServerDatabase:
    """A database on a server. Its text has no password; `address` may."""

    def __init__(self, text: str) -> None:
        self.address = text

    def __str__(self) -> str:
        return address.without_password(self.address)

    def __repr__(self) -> str:
        return f"<ServerDatabase {self}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ServerDatabase) and other.address == self.address

    def __hash__(self) -> int:
        return hash(self.address)


Database: TypeAlias = Path | ServerDatabase
"""The value of `--db`; messages name it by its text."""


class DatabaseParameter(click.Path):
    """A file's path, or an address; see `database_of`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a `Database`. Fails for another kind of address."""
        try:
            found = database_of(value)
        except InvalidEventError as error:
            self.fail(str(error), param, ctx)
        return super().convert(found, param, ctx) if isinstance(found, Path) else found


def database_of(text: str | Path) -> Database:
    """Return the database of a path or address. Raises `InvalidEventError` for another."""
    checked = address.checked(text)
    return ServerDatabase(checked) if address.is_postgres(checked) else Path(checked)


def file_of(db: Database, instead: str) -> Path:
    """Return a database's file.

    Raises `InvalidEventError` for a server; `instead` is what to do there.
    """
    if isinstance(db, ServerDatabase):
        raise InvalidEventError(f"expected a database in an SQLite file, found {db}: {instead}")
    return db


DATABASE = DatabaseParameter(path_type=Path)
COPIED = "`stenolog export` and `stenolog import` copy conversations"
"""The hint of commands that work on files only, if the database is on a server."""
