"""Chats of the AI SDK in files: a list of UI messages, an object around it, or either on lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

from stenolog.importers import (
    Importer,
    Json,
    JsonLinesReader,
    Record,
    Skipped,
    SourceConversation,
    as_dict,
    as_list,
    as_str,
)

from .chat import AiSdkChat
from .parts import is_part

ROLES = ("system", "user", "assistant", "data")
MESSAGES = "messages"
IDS = ("id", "chatId")


def is_message(value: Json) -> bool:
    """Return whether a value is a UI message, and no message of a provider's API.

    Its parts have types of the SDK's. In version 4 it may have none, but calls beside its content.
    """
    message = as_dict(value)
    if message.get("role") not in ROLES:
        return False
    parts = as_list(message.get("parts"))
    if parts:
        return all(map(is_part, parts))
    calls = [as_dict(each) for each in as_list(message.get("toolInvocations"))]
    return bool(calls) and all({"toolCallId", "state"} <= call.keys() for call in calls)


def is_chat(value: Json) -> bool:
    """Return whether a value is a list of messages, or an object with one; some of them may be damaged."""
    messages = value if isinstance(value, list) else as_list(as_dict(value).get(MESSAGES))
    roles = [as_dict(message).get("role") for message in messages]
    return any(map(is_message, messages)) and sum(isinstance(role, str) for role in roles) * 2 > len(roles)


def is_record(value: Json) -> bool:
    """Return whether a line is a message or a chat."""
    return is_message(value) or (isinstance(value, dict) and is_chat(value))


def is_document(value: Json) -> bool:
    """Return whether a document is a chat, or a list of chats."""
    return is_chat(value) or (isinstance(value, list) and bool(value) and all(is_record(v) for v in value))


def read(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield the chats of a file."""
    loose: list[Json] = []
    for place, value in reading.items(stream):
        if isinstance(as_dict(value).get(MESSAGES), list):
            yield _conversation(value[MESSAGES], value, reading)
        elif isinstance(value, dict):
            loose.append(value)
        else:
            reading.skip(place, "a chat or a message", value)
    chats: dict[str, list[Json]] = {}
    for message in loose:
        chats.setdefault(as_str(as_dict(message).get("chatId")), []).append(message)
    for id, messages in chats.items():
        yield _conversation(messages, {"id": id}, reading)


def _conversation(messages: list[Json], chat: dict[str, Any], reading: JsonLinesReader) -> SourceConversation:
    name = next(filter(None, (as_str(chat.get(key)) for key in IDS)), "")
    records: list[Record] = []
    for number, message in enumerate(messages, 1):
        if isinstance(message, dict):
            records.append(Record(str(number), message))
        else:
            found = f"expected a message, found {type(message).__name__}"
            reading.skipped.append(Skipped(number, found, "message"))
    ignored = Counter(key for key in chat if key not in (MESSAGES, "title", "createdAt", *IDS))
    return SourceConversation(
        name, records, partial(AiSdkChat, title=as_str(chat.get("title")), is_named=name != ""), ignored
    )


AI_SDK = Importer("ai-sdk", read=read, is_document=is_document, is_record=is_record)
