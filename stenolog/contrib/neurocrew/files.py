"""The files of NeuroCrew Lab, `chat_<id>.json`: an object with what is known of the chat beside the list of
its messages, or, as older ones were, the bare list.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

from stenolog.errors import UnknownFormatError
from stenolog.events import check_json
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

from .messages import AGENT, NAMED, NeuroCrew, content_of, kind_of

THEIRS = "conversation"
_LISTS = (THEIRS, "messages")
"""The fields of an object that may hold its messages."""
_OTHER_APIS = frozenset(("tool_calls", "tool_call_id", "function_call"))


def is_chat(document: Json) -> bool:
    """Return whether the document is a chat: an object with a chat's id, or a list that names an agent.

    In a list without answers, all messages are users', and have times.
    """
    told = as_dict(document)
    place = _list_in(told)
    messages = [as_dict(message) for message in as_list(told[place] if place else document)]
    if place != THEIRS and any(_is_of_another_api(message) for message in messages):
        return False
    if told:
        return place != "" and "chat_id" in told.keys() | as_dict(told.get("metadata")).keys()
    is_answered = any(message.keys() & NAMED or kind_of(message) == AGENT for message in messages)
    return is_answered or (bool(messages) and all(_is_awaiting(message) for message in messages))


def read(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """The chat of a file that was recognised as one. Raises `UnknownFormatError` where it has no messages."""
    document = reading.document(stream)
    told = document if isinstance(document, dict) else {}
    place = _list_in(told)
    given = told[place] if place else document
    if not isinstance(given, list):
        kind = type(given).__name__
        raise UnknownFormatError(f"expected a NeuroCrew chat with a list in {place!r}, found {kind}")
    records = list(_sound(given, reading))
    about = {name: value for name, value in told.items() if name != place}
    if fault := _unwritable(about):
        raise UnknownFormatError(f"expected a NeuroCrew chat, found beside its messages {fault}")
    yield SourceConversation(_name(about), records, partial(NeuroCrew, about=about, records=records))


def _list_in(document: dict[str, Any]) -> str:
    """The key of the messages, empty where there is none; where there are two, that of a list."""
    there = [name for name in _LISTS if name in document]
    return next((name for name in there if isinstance(document[name], list)), there[0] if there else "")


def _is_of_another_api(message: dict[str, Any]) -> bool:
    return bool(message.keys() & _OTHER_APIS) or isinstance(message.get("content"), list)


def _is_awaiting(message: dict[str, Any]) -> bool:
    return kind_of(message) == "user" and "timestamp" in message and isinstance(content_of(message), str)


def _sound(messages: list[Any], reading: JsonLinesReader) -> Iterator[Record]:
    """The messages that have a role and content; why the others are passed over is told."""
    for number, message in enumerate(messages, 1):
        if fault := _fault(message):
            reading.skipped.append(Skipped(number, fault, "message"))
        else:
            yield Record(str(number), message)


def _fault(message: Json) -> str:
    if not isinstance(message, dict):
        return f"expected an object, found {type(message).__name__}"
    if not kind_of(message):
        return f"expected a role, found {message.get('role')!r:.40}"
    return _unwritable(message) if content_of(message) is not None else "expected content, found none"


def _unwritable(value: Json) -> str:
    """Return the reason that the log cannot store the value; empty if it can."""
    try:
        check_json(value)
    except ValueError as error:
        return f"what cannot be written: {error}"
    return ""


def _name(about: dict[str, Any]) -> str:
    """The name of its file, which it may have lost: by the chat's id."""
    id = about.get("chat_id", as_dict(about.get("metadata")).get("chat_id"))
    named = str(id) if isinstance(id, int) and not isinstance(id, bool) else as_str(id)
    return f"chat_{named}" if named else ""


NEUROCREW = Importer("neurocrew", "a NeuroCrew chat", read, is_document=is_chat)
