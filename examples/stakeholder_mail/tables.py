"""The tables of SQL: the messages, which stenolog brings, and one of our own, in a few lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stenolog import AssistantMessage, Entry, Log
from stenolog.tables import CONVERSATION, Kept, Table, conversation_messages, keep

from .workflow import quality_of


def scored(entry: Entry) -> Iterator[dict[str, Any]]:
    """The row of a mail; an edit is put in the place of what it edits, since it is of the same task."""
    match entry.event:
        case AssistantMessage(agent="writer", task=task) as mail:
            noted = quality_of(mail)
            yield {"mail": task, "score": noted["score"], "words": noted["words"], "text": mail.text}
        case _:
            pass


stakeholder_mails = Table(
    "stakeholder_mails",
    columns={"workflow": CONVERSATION, "mail": str, "score": float, "words": int, "text": str},
    rows=scored,
    key="mail",
)


def tables(log: Log) -> Kept:
    """Both tables, kept up to date in the log's own database from now on."""
    keep(log, conversation_messages)
    return keep(log, stakeholder_mails)
