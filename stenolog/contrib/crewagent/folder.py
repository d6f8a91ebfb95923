"""The folder of conversations: index, files, and a place for writing."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from stenolog import importers
from stenolog.contrib.programs import CREWAGENT_MARKS
from stenolog.errors import CallerError, UnknownFormatError
from stenolog.importers import (
    Json,
    JsonLinesReader,
    Record,
    SourceConversation,
    as_dict,
    as_list,
    as_str,
    regular_file,
)

from .messages import CrewAgent
from .output_files import NOWHERE, NewFiles, OutputFiles, root_folder, there_already
from .schema import Message

try:
    import fcntl
except ImportError:  # pragma: no cover - not on POSIX
    fcntl = None  # type: ignore[assignment]


INDEX = "index.json"
MESSAGES = "messages.json"
CONVERSATIONS = "conversations"
TAKEN = ("", ".", "..", INDEX, f".{INDEX}.part")
"""Names that no folder of a conversation may have."""


def are_messages(document: Json) -> bool:
    """Return whether the document holds messages with fields that only CrewAgent has."""
    found = [message for message in as_list(_messages_in(document)) if isinstance(message, dict)]
    return any("role" in message for message in found) and any(
        mark in message for message in found for mark in CREWAGENT_MARKS
    )


def read(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield the one conversation of a `messages.json`."""
    yield _source_conversation("", reading.document(stream), {})


def folder_of(path: Path) -> Path | None:
    """Return the conversations' folder at a path or around an index; None for other files.

    Raises `UnknownFormatError` for a folder without conversations.
    """
    if path.is_dir():
        found = next(
            (
                each
                for each in (path, path / CONVERSATIONS)
                if (each / INDEX).is_file() or _own_messages(each)
            ),
            None,
        )
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
    """Return a messages file's name; its folder's if the name is the common one."""
    return path.absolute().parent.name if path.name == MESSAGES else path.stem


def conversations(folder: Path, reading: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield the index's conversations in order, then others by name.

    Unreadable ones are reported as failed or skipped.
    """
    listed = _listed(folder, reading)
    for own in (*listed, *(own for own in _own_messages(folder) if own not in listed)):
        yield _conversation(folder / own / MESSAGES, own, listed.get(own, {}), reading)


def is_folder_name(id: str) -> bool:
    """Return whether a folder may have this name: it never leads out of its parent."""
    return id.casefold() not in TAKEN and not set(id) & set("/\\\0:")


def index_in(document: Json) -> list[Json] | None:
    """Return an index's entries: a list, or `conversations` in an object; else None."""
    entries = as_dict(document).get("conversations") if isinstance(document, dict) else document
    return entries if isinstance(entries, list) else None


def _own_messages(folder: Path) -> list[str]:
    return sorted(found.parent.name for found in folder.glob(f"*/{MESSAGES}"))


def _is_index(path: Path) -> bool:
    with suppress(UnknownFormatError, FileNotFoundError), regular_file(path) as stream:
        entries = index_in(JsonLinesReader().document(stream))
        return bool(entries) and not any("role" in as_dict(entry) for entry in entries or ())
    return False


def _listed(folder: Path, reading: JsonLinesReader) -> dict[str, Message]:
    path = folder / INDEX
    if not path.is_file():
        return {}
    try:
        with regular_file(path) as stream:
            entries = index_in(reading.document(stream))
        if entries is None:
            raise UnknownFormatError("expected a list of conversations, or an object that holds one")
    except UnknownFormatError as error:
        reading.skipped.append(importers.Skipped(1, f"{INDEX}: {error}"))
        return {}
    listed: dict[str, Message] = {}
    for number, entry in enumerate(entries, 1):
        id = as_str(as_dict(entry).get("id"))
        if not is_folder_name(id) or id in listed:
            wanted = "an id that no other has" if id in listed else "an object with an id that names a folder"
            reading.skipped.append(
                importers.Skipped(number, f"{INDEX}: expected {wanted}, found {entry!r:.80}", "entry")
            )
        else:
            listed[id] = entry
    return listed


def _conversation(path: Path, own: str, about: Message, reading: JsonLinesReader) -> SourceConversation:
    reader = JsonLinesReader()
    try:
        with regular_file(path) as stream:
            beside = OutputFiles(*path.absolute().parents[:3])
            source = _source_conversation(own, reader.document(stream), {"id": own, **about}, files=beside)
    except FileNotFoundError:
        return _source_conversation(own, [], about, f"expected {own}/{MESSAGES}, found no such file")
    except (UnknownFormatError, OSError) as error:
        return _source_conversation(own, [], about, f"{own}/{MESSAGES}: {error}")
    reading.repaired += reader.repaired
    source.file = path
    return source


def _source_conversation(
    own: str, document: Json, about: Message, failed: str = "", files: OutputFiles = NOWHERE
) -> SourceConversation:
    found = _messages_in(document)
    if not isinstance(found, list):
        failed = f"{own}/{MESSAGES}: expected a list of messages, found {type(document).__name__}"
    records = [Record(str(number), message) for number, message in enumerate(as_list(found), 1)]
    beside = Counter(name for name in as_dict(document) if name != "messages")
    make = partial(CrewAgent, about=about, records=records, files=files)
    return SourceConversation(own, records, make, beside, failed)


def _messages_in(document: Json) -> Json:
    return document.get("messages") if isinstance(document, dict) else document


def put(folder: Path, about: Message, messages: list[Message], files: NewFiles) -> Path:
    """Write messages, files and index entry; return the messages' file.

    All are written beside their places before any is renamed, under a lock of the index. Raises `CallerError`
    for an unreadable index, a link out of the folder, or another conversation there; OSError.
    """
    target, index = folder / str(about["id"]) / MESSAGES, folder / INDEX
    if target.parent.is_symlink():
        raise CallerError(f"{target.parent}: expected a folder, found a link to one elsewhere")
    folder.mkdir(0o700, parents=True, exist_ok=True)
    with _alone_in(folder):
        if _has_another(target, messages):
            raise CallerError(f"{target}: expected messages of this conversation, found those of another")
        beside = dict(_placed_in(folder, files.contents))
        _write({**beside, target: _as_text(messages), index: _as_text(_indexed(index, about))})
    return target


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Lock the folder against other writers; leaves no lock file."""
    if fcntl is None:  # pragma: no cover - not on POSIX
        yield
        return
    held = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems lock no folders
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _has_another(path: Path, messages: list[Message]) -> bool:
    """Return whether a file's messages have ids and share none with these."""
    with suppress(UnknownFormatError, FileNotFoundError), regular_file(path) as stream:
        stored, ours = (
            {id for each in as_list(document) if (id := as_str(as_dict(each).get("id")))}
            for document in (JsonLinesReader().document(stream), messages)
        )
        return bool(stored and ours) and stored.isdisjoint(ours)
    return False


def _indexed(path: Path, about: Message) -> Json:
    if not path.exists():
        return {"conversations": [about]}
    try:
        with regular_file(path) as stream:
            document = JsonLinesReader().document(stream)
    except UnknownFormatError as error:
        raise CallerError(f"{path}: {error}") from None
    entries = index_in(document)
    if entries is None:
        raise CallerError(f"{path}: expected an index of conversations, found something else")
    others = [entry for entry in entries if as_dict(entry).get("id") != about["id"]]
    at = next(
        (nth for nth, entry in enumerate(entries) if as_dict(entry).get("id") == about["id"]), len(others)
    )
    whole = [*others[:at], about, *others[at:]]
    return {**document, "conversations": whole} if isinstance(document, dict) else whole


def _placed_in(folder: Path, contents: Mapping[str, bytes]) -> Iterator[tuple[Path, bytes]]:
    """Yield the files with their places in `@state` and `@project`.

    Raises `CallerError` for a link out of those.
    """
    for alias, content in contents.items():
        root, _, name = alias.partition("/")
        place = root_folder(folder, root)
        path = place / name
        if not path.resolve().is_relative_to(place.resolve()):
            raise CallerError(f"{path}: expected a file in {place}, found a link that leads elsewhere")
        if there_already(folder, alias) != content:
            yield path, content


def _as_text(document: Json) -> bytes:
    return f"{json.dumps(document, ensure_ascii=False, indent=2)}\n".encode()


def _write(documents: Mapping[Path, bytes]) -> None:
    parts = {path: path.with_name(f".{path.name}.part") for path in documents}
    try:
        for path, part in parts.items():
            path.parent.mkdir(0o700, parents=True, exist_ok=True)
            _write_new(part, documents[path])
        for path, part in parts.items():
            part.replace(path)
    finally:
        for path, part in parts.items():
            part.unlink(missing_ok=True)
            with suppress(OSError):  # there is something in it, as there should be
                path.parent.rmdir()


def _write_new(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with open(file, "wb") as stream:
        stream.write(content)
