"""Slack's exports: a JSON list of the messages of one channel on one day."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, BinaryIO

from stenolog import NewEntry, UserMessage, importers


def is_slack(document: Any) -> bool:
    each = document if isinstance(document, list) else []
    return any(isinstance(one, dict) and {"type", "ts", "text"} <= one.keys() for one in each)


def entries(record: importers.Record) -> Iterator[NewEntry]:
    """Yield the entry of a message; a `ValueError` would skip it, with its number in the report."""
    ts, text, user = (record.value.get(key, "") for key in ("ts", "text", "user"))
    yield NewEntry(UserMessage(text=text, author=user), f"slack-{ts}", datetime.fromtimestamp(float(ts), UTC))


def read(stream: BinaryIO, reader: importers.JsonLinesReader) -> Iterator[importers.SourceConversation]:
    yield importers.source_conversation(reader.document(stream), entries)


SLACK = importers.Importer("slack", "a Slack channel", read, is_document=is_slack)
importers.IMPORTERS.add(SLACK.name, SLACK)
