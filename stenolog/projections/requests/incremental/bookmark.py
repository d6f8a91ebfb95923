"""Bookmark of a lane's requests on an API, from which another process continues.

A bookmark keeps the messages that were written of the frozen prefix, instead of its entries. If anything
would change one of these messages, the request is rebuilt from the log.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import starmap
from typing import Any, NamedTuple

from stenolog.domain.parts import TextPart
from stenolog.projections.requests.pipeline.prefix import Prefix
from stenolog.projections.requests.request import Message, Role
from stenolog.projections.requests.wires.writer import Writer
from stenolog.projections.tool_pairs import CallKey

from .frozen import FrozenPrefix
from .snapshot import WindowSnapshot, runs
from .window import Window


class Bookmark(NamedTuple):
    """A snapshot of a window and its frozen prefix, with the state of the writer.

    `mark` has the window with the entries that may still change. Of the frozen entries, up to position
    `last`, it has the `calls` made, the `tools` called, and the `role` (empty: none) and position
    (`word`) of the last message. `prefix` is the fingerprint of the writer's prefix. `messages` is the
    number of written messages, which are stored beside it. `ids` are the ids given to calls.
    """

    mark: WindowSnapshot
    last: int
    calls: tuple[tuple[int, int], ...]
    tools: tuple[str, ...]
    role: Role | str
    word: int
    prefix: str
    ids: tuple[str, ...]
    messages: int


def bookmark(window: Window, writer: Writer) -> Bookmark | None:
    """The bookmark of a window whose settled units are written; None where their messages cannot be kept."""
    settled, sheet = window.settled, writer.sheet
    unanswered = settled.answer is not None and not settled.answer.complete
    if unanswered or sheet.missing or sheet.holds_blobs or not sheet.messages:
        return None
    behind = [row.entry.position for row in window.rows[settled.rows :]]
    pairs = tuple(p for p in window.pairing.pairs.values() if p.result > settled.last)
    end = settled.end
    return Bookmark(
        mark=window.snapshot._replace(
            rows=tuple(runs(behind)), pairs=pairs, summaries=(), left_out=(), private=()
        ),
        last=settled.last,
        calls=tuple(sorted(settled.called)),
        tools=tuple(settled.tools),
        role=end.role if end else "",
        word=end.positions[-1] if end and end.positions else 0,
        prefix=fingerprint(writer.prefix),
        ids=tuple(writer.ids.ids),
        messages=len(sheet.messages),
    )


def settled_by(mark: Bookmark) -> FrozenPrefix:
    """Return the frozen prefix, without its units."""
    settled = FrozenPrefix()
    settled.last = mark.last
    settled.called = {*starmap(CallKey, mark.calls)}
    settled.tools = dict.fromkeys(mark.tools)
    if mark.role:
        role: Any = mark.role
        settled.before = Message(role, (TextPart(text=""),), (mark.word,), "settled")
    return settled


def fingerprint(prefix: Prefix) -> str:
    """Return a hash that identifies a prefix across processes."""
    said = (*prefix._replace(stubs=frozenset())[:-1], sorted(prefix.stubs), prefix.counter.id)
    return sha256(repr(said).encode(errors="backslashreplace")).hexdigest()
