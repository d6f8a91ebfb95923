"""Leaving bookmarks of the requests of a lane, and going on from them in another process."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from pydantic_core import PydanticSerializationError, from_json, to_json

from stenolog.adapters.store import reader
from stenolog.adapters.store.handle import LogHandle
from stenolog.adapters.store.peek import peek
from stenolog.adapters.store.stream import Stream
from stenolog.projections.requests import PIPELINE
from stenolog.projections.requests.incremental.bookmark import Bookmark
from stenolog.projections.requests.incremental.session import RequestSession

from .folds import Rows, rules_version
from .window_cache import CachedWindow, Key, windows_of

FAR = 1_024
"""After so many further messages a bookmark is left again, and when the log is closed."""
NEAR = 128
"""Below this many messages, rebuilding a window is as fast as loading it."""
PIECE = 64
"""Messages in a piece: larger ones take longer to read, for the memory they need."""
BOOKMARK = Rows(Bookmark)


class WindowToKeep(NamedTuple):
    """The bookmark of a request: its writer, how many messages it has, and a seal of each piece of them.

    `tried`: how many there were when it was tried last, be it in vain.
    """

    writer: object = None
    messages: int = 0
    sums: tuple[int, ...] = ()
    tried: int = 0


class StoredWindow(NamedTuple):
    """A bookmark, the digest of the log there, the settled messages, and a seal of each piece."""

    mark: Bookmark
    digest: str
    messages: list[dict[str, Any]]
    sums: tuple[int, ...]


NOTHING = WindowToKeep()


def leave_all(log: LogHandle) -> None:
    """Leave a bookmark of whatever the log holds, and still has: deleted words are not written again."""
    for key, held in windows_of(log):
        stream = Stream("", key.stream)
        if peek(log.datastore, stream, held.window.position, held.digest) is not None:
            leave(log, key, held, further=1)


def leave(log: LogHandle, key: Key, held: CachedWindow, *, further: int) -> None:
    """Leave a bookmark of each API that has written so many messages since the last one."""
    for name, live in held.lives.items():
        before = held.left.get(name, NOTHING)
        if live.writer is None or not isinstance(name, str):
            continue
        if before.writer is not live.writer:
            before = WindowToKeep(live.writer)
        written = len(live.writer.sheet.messages)
        if written >= max(NEAR, before.tried + further):
            left = _leave(log, key, name, live, held.digest, before)
            held.left[name] = left._replace(tried=written)


def _leave(
    log: LogHandle, key: Key, api: str, live: RequestSession, digest: str, before: WindowToKeep
) -> WindowToKeep:
    """The last message is kept apart: what comes behind it may go on with it."""
    found = live.bookmark()
    if found is None:
        return before
    mark, messages = found
    try:
        cuts = range(before.messages, len(messages) - 1, PIECE)
        fresh = [to_json(messages[first : min(first + PIECE, len(messages) - 1)]) for first in cuts]
        sums = (*before.sums, *map(log.bookmarks.seal, fresh))
        said = to_json({"digest": digest, "last": messages[-1], "sums": sums})
    except PydanticSerializationError:  # half a character, say: nothing that JSON can hold
        return before
    head = BOOKMARK.dump(mark) + b"\n" + said
    is_kept = log.bookmarks.put(key.stream, _name(key, api), head, len(before.sums) + 1, fresh)
    if is_kept and not reader.exists(log.datastore, key.stream):  # it was deleted elsewhere
        log.bookmarks.forget(key.stream)
        is_kept = False
    return WindowToKeep(live.writer, len(messages) - 1, sums) if is_kept else WindowToKeep(live.writer)


def find(log: LogHandle, key: Key, api: str) -> StoredWindow | None:
    """The bookmark of a lane on an API; None where there is none, or another release has left it.

    The seals tell pieces from those that another process has left.
    """
    (head, _), *pieces = log.bookmarks.get(key.stream, _name(key, api)) or ((b"", 0),)
    written, _, rest = head.partition(b"\n")
    try:
        mark, said = BOOKMARK.load(written), from_json(rest)
        sums = tuple(total for _, total in pieces)
        if list(sums) != said["sums"]:
            return None
        messages = [message for piece, _ in pieces for message in from_json(piece)]
    except (ValueError, TypeError, KeyError):
        return None
    messages.append(said["last"])
    return StoredWindow(mark, said["digest"], messages, sums) if len(messages) == mark.messages else None


def _name(key: Key, api: str) -> str:
    asked = [key.lane.agent, key.lane.task, key.policy, api, PIPELINE, rules_version()]
    return json.dumps(asked)
