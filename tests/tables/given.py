"""Logs and tables to test with."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from stenolog import AssistantMessage, Entry, UserMessage
from stenolog.tables import CONVERSATION, POSITION, Delete, Table


def lines_in(entry: Entry) -> Iterator[dict[str, Any]]:
    """Yield a row for each line that a person says."""
    if isinstance(entry.event, UserMessage):
        for line in entry.event.text.splitlines():
            yield {"line": line}


lines = Table("lines", columns={"talk": CONVERSATION, "at": POSITION, "line": str}, rows=lines_in)
"""Rows by position: those of an edit take the place of those of what it edits."""


def scores_in(entry: Entry) -> Iterator[dict[str, Any] | Delete]:
    """Yield the score that each mail has; "-ann" takes that of Ann away."""
    if isinstance(entry.event, AssistantMessage):
        name, _, score = entry.event.text.partition(" ")
        yield Delete(name[1:]) if name.startswith("-") else {"mail": name, "score": len(score)}


scores = Table(
    "scores", columns={"talk": CONVERSATION, "mail": str, "score": float}, rows=scores_in, key="mail"
)
"""Rows by a key of their own."""


def plain_sql(path: Path, query: str, *values: object) -> list[tuple[Any, ...]]:
    """Return the rows that another program reads, which knows nothing of stenolog."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query, values).fetchall()
