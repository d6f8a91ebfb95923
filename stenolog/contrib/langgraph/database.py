"""LangGraph's importer: how the database of a `SqliteSaver` is recognised, without LangGraph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from stenolog.errors import MissingExtraError
from stenolog.importers import (
    Importer,
    JsonLinesReader,
    SourceConversation,
    sqlite_database,
)

TABLES = ("checkpoints", "writes")


def read(stream: BinaryIO, _reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield a conversation for each thread of a database.

    Raises `MissingExtraError` without the package that reads LangGraph's checkpoints.
    """
    try:
        from .thread_messages import threads_in
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("langgraph", "langchain_core"):
            raise
        raise MissingExtraError("langgraph", "langgraph-checkpoint") from None
    with sqlite_database(stream, *TABLES) as connection:
        yield from threads_in(connection)


LANGGRAPH = Importer("langgraph", read=read)
