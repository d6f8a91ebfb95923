"""A conversation's place in a folder: its messages and its entry of the index, which others write as well."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from stenolog.errors import CallerError, UnknownFormatError
from stenolog.importers import Json, JsonLinesReader, as_dict, as_list, as_str, regular_file

from .folder import INDEX, MESSAGES, index_in
from .schema import Message

try:
    import fcntl
except ImportError:  # pragma: no cover - not on POSIX
    fcntl = None  # type: ignore[assignment]


def put(folder: Path, about: Message, messages: list[Message]) -> Path:
    """Put the messages, and what is told about them, into the folder; the file of the messages.

    Both files are written beside their places before either takes its own, and meanwhile nobody else writes
    the index. Raises `CallerError` where the index cannot be read, a link leads elsewhere, or another
    conversation is there; OSError.
    """
    target, index = folder / str(about["id"]) / MESSAGES, folder / INDEX
    if target.parent.is_symlink():
        raise CallerError(f"{target.parent}: expected a folder, found a link to one elsewhere")
    folder.mkdir(0o700, parents=True, exist_ok=True)
    with _alone_in(folder):
        if _has_another(target, messages):
            raise CallerError(f"{target}: expected messages of this conversation, found those of another")
        _write({target: messages, index: _indexed(index, about)})
    return target


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Others wait who put something into the folder; the lock is the folder's own, and leaves no file."""
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
    """Return whether the messages of a file have ids, and share none with these messages."""
    with suppress(UnknownFormatError, FileNotFoundError), regular_file(path) as stream:
        there, ours = (
            {id for each in as_list(told) if (id := as_str(as_dict(each).get("id")))}
            for told in (JsonLinesReader().document(stream), messages)
        )
        return bool(there and ours) and there.isdisjoint(ours)
    return False


def _indexed(path: Path, about: Message) -> Json:
    """The index with the entry, in the form that it has."""
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


def _write(documents: Mapping[Path, Json]) -> None:
    """Write the files beside their places, and then put them there."""
    parts = {path: path.with_name(f".{path.name}.part") for path in documents}
    try:
        for path, part in parts.items():
            path.parent.mkdir(0o700, exist_ok=True)
            _write_new(part, f"{json.dumps(documents[path], ensure_ascii=False, indent=2)}\n")
        for path, part in parts.items():
            part.replace(path)
    finally:
        for path, part in parts.items():
            part.unlink(missing_ok=True)
            with suppress(OSError):  # there is something in it, as there should be
                path.parent.rmdir()


def _write_new(path: Path, words: str) -> None:
    """Write a file that nobody else has: what was left there is removed, and no link is followed."""
    path.unlink(missing_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with open(file, "w", encoding="utf-8", newline="\n") as stream:
        stream.write(words)
