"""The tables of SQL: the messages, which stenolog brings, and one of our own, in a few lines."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from stenolog import AssistantMessage, Entry, Log
from stenolog.contrib.workflow import conversation_messages
from stenolog.errors import CallerError
from stenolog.tables import CONVERSATION, Table, attach_table

from .workflow import lacks, quality_of


def scored(entry: Entry) -> Iterator[dict[str, Any]]:
    """Yield the row of a mail; an edit is put in the place of what it edits, since it is of the same task."""
    match entry.event:
        case AssistantMessage(agent="writer", task=task) as mail:
            noted = quality_of(mail)
            row = {"score": noted["score"], "lacks": lacks(noted), "words": noted["words"]}
            yield {"mail": task, **row, "text": mail.text}
        case _:
            pass


stakeholder_mails = Table(
    "stakeholder_mails",
    columns={
        "workflow": CONVERSATION,
        "mail": str,
        "score": float,
        "lacks": str,
        "words": int,
        "text": str,
    },
    rows=scored,
    key="mail",
)


def tables(log: Log) -> None:
    """Keep both tables up to date in the log's own database from now on."""
    attach_table(log, conversation_messages)
    attach_table(log, stakeholder_mails)


def answer(db: str, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names of columns, and the rows, as any program is given them that reads SQLite."""
    try:
        with closing(sqlite3.connect(f"{Path(db).resolve().as_uri()}?mode=ro", uri=True)) as connection:
            cursor = connection.execute(query)
            return [name for name, *_ in cursor.description or ()], cursor.fetchall()
    except sqlite3.Error as error:
        raise CallerError(f"{error}: {query}") from None
