"""opencode's storage folder, a JSON file per session, message and part, and its exports.

`storage` has `session/<project>/<session>.json`, `message/<session>/<message>.json`, and
`part/<message>/<part>.json`. First releases had one per project: `session/info/<session>.json`,
`session/message/<session>/<message>.json`, and `session/part/<session>/<message>/<part>.json`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from stenolog import importers
from stenolog.errors import UnknownFormatError
from stenolog.importers import Json, JsonLinesReader, JsonObject, as_dict, as_list, as_str

from .converter import conversations
from .stored import StoredMessage, StoredSession, message_of

_STORAGE = "storage"
_LOOKED_AT = 20
"""The number of files by which a folder is recognised."""


class FolderStorage:
    """The sessions in a storage folder."""

    def __init__(self, folder: Path, reading: JsonLinesReader) -> None:
        self._folder = folder
        self._reading = reading
        first = folder / "session" / "message"
        self._messages = first if first.is_dir() else folder / "message"
        self._parts = folder / "session" / "part" if first.is_dir() else folder / "part"
        self._number = 0

    def sessions(self) -> list[StoredSession]:
        """Return the sessions, and those of which only messages are there."""
        files = sorted(self._folder.glob("session/*/*.json"))
        found = {file.stem: self._read(file) for file in files}
        facts = {id: StoredSession(id, info) for id, info in found.items() if info}
        alone = sorted(
            each.name for each in self._messages.glob("*") if each.is_dir() and each.name not in facts
        )
        return [*facts.values(), *(StoredSession(id, {}) for id in alone)]

    def messages(self, session: str) -> list[StoredMessage]:
        """Return a session's messages, parts in the order of their files."""
        found = [(file.stem, self._read(file)) for file in sorted((self._messages / session).glob("*.json"))]
        return [message_of(info, self._parts_of(session, info), name) for name, info in found if info]

    def _parts_of(self, session: str, info: JsonObject) -> list[JsonObject]:
        id = as_str(info.get("id"))
        if not _is_file_name(id):
            return self._loose.get(id, [])
        folders = (self._parts / id, self._parts / session / id)
        files = chain.from_iterable(sorted(folder.glob("*.json")) for folder in folders)
        found = [part for file in files if (part := self._read(file))]
        return [*found, *self._loose.get(id, ())]

    @cached_property
    def _loose(self) -> dict[str, list[JsonObject]]:
        found: dict[str, list[JsonObject]] = {}
        for file in sorted(self._parts.glob("*.json")):
            if part := self._read(file):
                found.setdefault(as_str(part.get("messageID")), []).append(part)
        return found

    def _read(self, file: Path) -> JsonObject:
        self._number += 1
        try:
            value = _document(file, self._reading)
        except (UnknownFormatError, OSError) as error:
            self._skip(file, str(error))
            return {}
        if not isinstance(value, dict):
            self._skip(file, f"expected an object, found {type(value).__name__}")
            return {}
        return value

    def _skip(self, file: Path, reason: str) -> None:
        where = file.relative_to(self._folder)
        self._reading.skipped.append(importers.Skipped(self._number, f"{where}: {reason}", "file"))


def _is_file_name(id: str) -> bool:
    """Return whether an id may name a folder: it never leads out of its parent."""
    return id not in ("", ".", "..") and not set(id) & set("/\\\0")


def _document(file: Path, reading: JsonLinesReader) -> Json:
    with importers.regular_file(file) as stream:
        return reading.document(stream)


def find(path: Path) -> Path | None:
    """Return the storage folder at a path; None if there is none."""
    return next((each for each in (path, path / _STORAGE) if is_storage(each)), None)


def is_storage(folder: Path) -> bool:
    """Return whether a folder holds opencode's messages, by its first files."""
    for pattern in ("message/*/*.json", "session/message/*/*.json"):
        for _, file in zip(range(_LOOKED_AT), folder.glob(pattern), strict=False):
            if _is_message(file):
                return True
    return False


def _is_message(file: Path) -> bool:
    try:
        value = as_dict(_document(file, JsonLinesReader()))
    except (UnknownFormatError, OSError):
        return False
    named = "sessionID" in value or "sessionID" in as_dict(value.get("metadata"))
    return named and value.get("role") in ("user", "assistant")


def files(folder: Path) -> Iterator[Path]:
    """Yield the files that a storage folder is read from."""
    if (storage := find(folder)) is not None:
        for kind in ("session", "message", "part"):
            yield from storage.glob(f"{kind}/**/*.json")


def read_folder(folder: Path, reading: JsonLinesReader) -> Iterator[importers.SourceConversation]:
    """Yield the sessions of a folder."""
    yield from conversations(FolderStorage(folder, reading))


class ExportStorage:
    """An export's session: an object with `info`, and `messages` with parts."""

    def __init__(self, document: JsonObject) -> None:
        self._info = as_dict(document.get("info"))
        self._messages = [as_dict(each) for each in as_list(document.get("messages"))]
        self._id = importers.key_of(as_str(self._info.get("id")))

    def sessions(self) -> list[StoredSession]:
        """Return the one session."""
        return [StoredSession(self._id, self._info)]

    def messages(self, session: str) -> list[StoredMessage]:
        """Return its messages."""
        assert session == self._id
        found = enumerate(self._messages, 1)
        return [_exported(each, f"#{nth}") for nth, each in found if as_dict(each.get("info"))]


def _exported(message: JsonObject, name: str) -> StoredMessage:
    parts = [as_dict(part) for part in as_list(message.get("parts")) if as_dict(part)]
    return message_of(as_dict(message["info"]), parts, name)


def is_export(document: Json) -> bool:
    """Return whether a document is what `opencode export` writes."""
    value = as_dict(document)
    messages = [as_dict(each) for each in as_list(value.get("messages"))]
    facts = as_dict(value.get("info"))
    return (
        "id" in facts and "messages" in value and all("info" in each and "parts" in each for each in messages)
    )


def read_export(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[importers.SourceConversation]:
    """Yield the session of an export."""
    yield from conversations(ExportStorage(as_dict(reading.document(stream))))


OPENCODE = importers.Importer(
    "opencode",
    read=read_export,
    is_document=is_export,
    folder=importers.FolderFormat(find, is_storage, read_folder, files),
)
