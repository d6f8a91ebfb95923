"""Leaving bookmarks of the requests of a lane, and going on from them in another process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import PydanticSerializationError, from_json, to_json

from stenolog.projections.requests import PIPELINE
from stenolog.projections.requests.bookmark import Bookmark
from stenolog.projections.requests.live import Live

from .holding import Held, Key
from .keeping import Rows

if TYPE_CHECKING:
    from .log import Log

FAR = 1_024
"""After so many further messages a bookmark is left again, and when the log is closed."""
NEAR = 128
"""What has fewer messages is made anew as quickly."""
BOOKMARK = Rows(Bookmark)


class Found(NamedTuple):
    """A bookmark, the digest of the log there, and the messages that are settled, in so many pieces."""

    mark: Bookmark
    digest: str
    messages: list[dict[str, Any]]
    pieces: int


class Left(NamedTuple):
    """What was left of a live before: by which writer, how many messages, in how many pieces."""

    writer: object = None
    messages: int = 0
    pieces: int = 0


NOTHING = Left()


def leave(log: Log, key: Key, held: Held, *, further: int) -> None:
    """Leave a bookmark of each wire that has written so many messages since the last one."""
    for name, live in held.lives.items():
        before = held.left.get(name, NOTHING)
        if live.writer is None or not isinstance(name, str):
            continue
        if before.writer is not live.writer:
            before = NOTHING
        if len(live.writer.sheet.messages) >= max(NEAR, before.messages + further):
            held.left[name] = _left(log, key, name, live, held.digest, before)


def _left(log: Log, key: Key, wire: str, live: Live, digest: str, before: Left) -> Left:
    """The last message is kept apart: what comes behind it may go on with it."""
    found = live.bookmark()
    if found is None:
        return before
    mark, messages = found
    said = {"digest": digest, "last": messages[-1]}
    try:
        head, fresh = BOOKMARK.dump(mark) + b"\n" + to_json(said), to_json(messages[before.messages : -1])
    except PydanticSerializationError:  # half a character, say: nothing that JSON can hold
        return before
    log.bookmarks.put(key.stream, _name(key, wire), head, before.pieces + 1, [fresh])
    return Left(live.writer, len(messages) - 1, before.pieces + 1)


def find(log: Log, key: Key, wire: str) -> Found | None:
    """The bookmark of a lane on a wire; None where there is none, or another release has left it."""
    head, *pieces = log.bookmarks.get(key.stream, _name(key, wire)) or (b"",)
    written, _, rest = head.partition(b"\n")
    try:
        mark, said = BOOKMARK.load(written), from_json(rest)
        messages = [message for piece in pieces for message in from_json(piece)]
    except (ValueError, TypeError, KeyError):
        return None
    messages.append(said["last"])
    return Found(mark, said["digest"], messages, len(pieces)) if len(messages) == mark.messages else None


def _name(key: Key, wire: str) -> str:
    from stenolog import __version__  # late: it imports this module

    asked = [key.lane.agent, key.lane.task, key.policy, wire, PIPELINE, __version__]
    return json.dumps(asked)
