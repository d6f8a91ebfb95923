"""The tables of SQL: the messages, which stenolog brings, and two of our own, in a few lines.

In the log's own file they are kept up to date with every append; in PostgreSQL, by a follower, when asked.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from stenolog import AssistantMessage, Entry, Log
from stenolog.contrib.workflow import conversation_messages
from stenolog.errors import CallerError
from stenolog.tables import CONVERSATION, Follower, Table, attach_table

from .workflow import quality_of


def written(entry: Entry) -> Iterator[dict[str, Any]]:
    """Yield the row of a mail; a later one of the same task takes its place."""
    match entry.event:
        case AssistantMessage(agent="email_writer", task=task) as mail:
            yield {"mail": task, "words": len(mail.text.split()), "text": mail.text}
        case _:
            pass


def scored(entry: Entry) -> Iterator[dict[str, Any]]:
    """Yield the row of a review."""
    match entry.event:
        case AssistantMessage(agent="reviewer", task=task) as review if quality_of(review):
            noted = quality_of(review)
            yield {"mail": task, "score": noted["score"], "lacks": noted["lacks"]}
        case _:
            pass


stakeholder_mails = Table(
    "stakeholder_mails",
    columns={"workflow": CONVERSATION, "mail": str, "words": int, "text": str},
    rows=written,
    key="mail",
)
mail_scores = Table(
    "mail_scores",
    columns={"workflow": CONVERSATION, "mail": str, "score": float, "lacks": str},
    rows=scored,
    key="mail",
)


TABLES = (conversation_messages, stakeholder_mails, mail_scores)


def tables(log: Log) -> None:
    """Keep the tables up to date in the log's own database from now on."""
    for table in TABLES:
        attach_table(log, table)


def answer_of_server(log: Log, dsn: str, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names of columns, and the rows, from tables in PostgreSQL that follow the log."""
    import psycopg

    with Follower(log, dsn, *TABLES) as follower:
        follower.catch_up()
    try:
        with psycopg.connect(dsn) as connection:
            connection.read_only = True
            cursor = connection.execute(query.encode())
            return [column.name for column in cursor.description or ()], cursor.fetchall()
    except psycopg.Error as error:
        raise CallerError(f"{str(error).splitlines()[0]}: {query}") from None


def answer(db: str, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names of columns, and the rows, as any program is given them that reads SQLite."""
    try:
        with closing(sqlite3.connect(f"{Path(db).resolve().as_uri()}?mode=ro", uri=True)) as connection:
            cursor = connection.execute(query)
            return [name for name, *_ in cursor.description or ()], cursor.fetchall()
    except sqlite3.Error as error:
        raise CallerError(f"{error}: {query}") from None
