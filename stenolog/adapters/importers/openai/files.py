"""Files of OpenAI chat messages as an importable format."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from stenolog.adapters.importers.detection.other_formats import described
from stenolog.adapters.importers.door.json_lines import Json, Record
from stenolog.adapters.importers.formats import Importer
from stenolog.domain.errors import UnknownFormatError
from stenolog.projections.formats import DEFAULT_API
from stenolog.projections.formats.openai_chat.read import is_message
from stenolog.projections.messages.json_fields import as_dict

from .messages import are_messages, conversations_in, read


def _is_record(value: Json) -> bool:
    return are_messages(as_dict(value).get("messages")) or is_message(value)


def _other(records: Iterator[Record]) -> str:
    """Return "telemetry" for events with messages. Raises `UnknownFormatError` for a line without a role."""
    found = []
    for record in records:
        found.append(record)
        value = record.value
        if are_messages(value.get("messages")):
            return "telemetry" if "." in str(value.get("type") or value.get("event") or "") else ""
        if is_message(value):
            break
    for record in chain(found, records):
        if not isinstance(record.value.get("role"), str):
            raise UnknownFormatError(
                f"expected an OpenAI chat message on each line, found on line {record.line} "
                f"{described(record.value)}"
            )
    return ""


OPENAI_CHAT = Importer(
    DEFAULT_API,
    read=read,
    is_document=lambda value: conversations_in(value) is not None,
    is_record=_is_record,
    other=_other,
)
