"""The folder of conversations: what its index lists, and what lies there without being listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from stenolog.errors import UnknownFormatError
from stenolog.importers import (
    Json,
    JsonLinesReader,
    Record,
    Skipped,
    SourceConversation,
    as_dict,
    as_list,
    as_str,
    regular_file,
)

from .messages import CrewAgent
from .schema import MARKS, Message

INDEX = "index.json"
MESSAGES = "messages.json"
CONVERSATIONS = "conversations"
TAKEN = ("", ".", "..", INDEX, f".{INDEX}.part")
"""Names that no folder of a conversation may have."""


def are_messages(document: Json) -> bool:
    """Return whether the document holds messages with fields that only CrewAgent has."""
    found = [message for message in as_list(_messages_in(document)) if isinstance(message, dict)]
    return any("role" in message for message in found) and any(
        mark in message for message in found for mark in MARKS
    )


def read(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """The one conversation of a `messages.json`."""
    yield _source_conversation("", reading.document(stream), {})


def folder_of(path: Path) -> Path | None:
    """The folder of conversations that a path stands for, be it that of the index; None for any other file.

    Raises `UnknownFormatError` for a folder that holds none.
    """
    if path.is_dir():
        found = next((each for each in (path, path / CONVERSATIONS) if _holds_some(each)), None)
        if found is None:
            raise UnknownFormatError(f"expected a folder with {INDEX} or <id>/{MESSAGES}, found {path}")
        return found
    if path.name != INDEX:
        return None
    return path.parent if _own_messages(path.parent) or _is_index(path) else None


def is_one(folder: Path) -> bool:
    """Return whether a folder is one of CrewAgent's conversations."""
    return bool(_own_messages(folder)) or _is_index(folder / INDEX)


def own_name(path: Path) -> str:
    """Return the name of a file of messages; files with the common name go by their folder's name."""
    return path.absolute().parent.name if path.name == MESSAGES else path.stem


def conversations(folder: Path, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """The conversations that the index lists, in its order, and those beside them by their names.

    What cannot be read is told as failed, or among what `reading` has skipped; the others are read.
    """
    listed = _listed(folder, reading)
    for own in (*listed, *(own for own in _own_messages(folder) if own not in listed)):
        yield _conversation(folder / own / MESSAGES, own, listed.get(own, {}), reading)


def is_folder_name(id: str) -> bool:
    """Return whether a folder may have this name: it never leads out of the parent folder."""
    return id.casefold() not in TAKEN and not set(id) & set("/\\\0:")


def index_in(document: Json) -> list[Json] | None:
    """The entries of an index: a list, or `conversations` in an object; None where it is neither."""
    entries = as_dict(document).get("conversations") if isinstance(document, dict) else document
    return entries if isinstance(entries, list) else None


def _holds_some(folder: Path) -> bool:
    return (folder / INDEX).is_file() or bool(_own_messages(folder))


def _own_messages(folder: Path) -> list[str]:
    return sorted(found.parent.name for found in folder.glob(f"*/{MESSAGES}"))


def _is_index(path: Path) -> bool:
    with suppress(UnknownFormatError, FileNotFoundError), regular_file(path) as stream:
        entries = index_in(JsonLinesReader().document(stream))
        return bool(entries) and not any("role" in as_dict(entry) for entry in entries or ())
    return False


def _listed(folder: Path, reading: JsonLinesReader) -> dict[str, Message]:
    """Return the entries of the index, by the id of the conversation."""
    path = folder / INDEX
    if not path.is_file():
        return {}
    try:
        with regular_file(path) as stream:
            entries = index_in(reading.document(stream))
        if entries is None:
            raise UnknownFormatError("expected a list of conversations, or an object that holds one")
    except UnknownFormatError as error:
        reading.skipped.append(Skipped(1, f"{INDEX}: {error}"))
        return {}
    listed: dict[str, Message] = {}
    for number, entry in enumerate(entries, 1):
        id = as_str(as_dict(entry).get("id"))
        if not is_folder_name(id) or id in listed:
            wanted = "an id that no other has" if id in listed else "an object with an id that names a folder"
            reading.skipped.append(
                Skipped(number, f"{INDEX}: expected {wanted}, found {entry!r:.80}", "entry")
            )
        else:
            listed[id] = entry
    return listed


def _conversation(path: Path, own: str, about: Message, reading: JsonLinesReader) -> SourceConversation:
    here = JsonLinesReader()
    try:
        with regular_file(path) as stream:
            told = _source_conversation(own, here.document(stream), {"id": own, **about})
    except FileNotFoundError:
        return _source_conversation(own, [], about, f"expected {own}/{MESSAGES}, found no such file")
    except (UnknownFormatError, OSError) as error:
        return _source_conversation(own, [], about, f"{own}/{MESSAGES}: {error}")
    reading.repaired += here.repaired
    told.file = path
    return told


def _source_conversation(own: str, document: Json, about: Message, failed: str = "") -> SourceConversation:
    found = _messages_in(document)
    if not isinstance(found, list):
        failed = f"{own}/{MESSAGES}: expected a list of messages, found {type(document).__name__}"
    records = [Record(str(number), message) for number, message in enumerate(as_list(found), 1)]
    beside = Counter(name for name in as_dict(document) if name != "messages")
    return SourceConversation(own, records, partial(CrewAgent, about=about, records=records), beside, failed)


def _messages_in(document: Json) -> Json:
    """The messages of a document, which may be an object around them."""
    return document.get("messages") if isinstance(document, dict) else document
