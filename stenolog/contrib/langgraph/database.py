"""LangGraph's importer: how the database of a `SqliteSaver` is recognised, without LangGraph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from stenolog.errors import MissingExtraError
from stenolog.importers import (
    SQLITE,
    Importer,
    JsonLinesReader,
    SourceConversation,
    sqlite_database,
    tables_in,
)

TABLES = frozenset(("checkpoints", "writes"))
COLUMNS = frozenset(("thread_id", "checkpoint_ns", "checkpoint_id", "type", "checkpoint"))


def is_database(first: bytes, stream: BinaryIO) -> bool:
    """Return whether a file is an SQLite database with the tables of a `SqliteSaver`."""
    if not first.startswith(SQLITE):
        return False
    tables = tables_in(stream)
    return tables.keys() >= TABLES and tables["checkpoints"] >= COLUMNS


def read(stream: BinaryIO, _reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield a conversation for each thread of a database.

    Raises `MissingExtraError` where the package that reads LangGraph's checkpoints is not installed.
    """
    try:
        from .thread_messages import threads_in
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("langgraph", "langchain_core"):
            raise
        raise MissingExtraError("langgraph", "langgraph-checkpoint") from None
    with sqlite_database(stream, *TABLES) as connection:
        yield from threads_in(connection)


LANGGRAPH = Importer("langgraph", "the database of a LangGraph SqliteSaver", read, is_start=is_database)
