"""Keeping the imported file itself, as blobs: what it holds beyond its messages can be looked up later.

A file that has grown adds only the part that is new; the blobs of all parts, in order, are the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import ModeSwitch

from .fields import Json, items, obj, text, whole

if TYPE_CHECKING:
    from stenolog.adapters.conversation import Conversation

NAMESPACE = "stenolog.original"
PIECE = 8 * 1024 * 1024
"""Bytes of the largest blob that a file is cut into."""


class Piece(NamedTuple):
    """A part of a file: its blob and its size."""

    blob: str
    size: int


def keep(talk: Conversation, stream: BinaryIO, file: str) -> None:
    """Keep what is new in the file as blobs, named by a mode switch that changes no setting."""
    stream.seek(0)
    for piece in kept(talk.entries()):
        if sha256(stream.read(piece.size)).hexdigest() != piece.blob:
            stream.seek(0)
            break
    pieces: list[Json] = []
    while content := stream.read(PIECE):
        pieces.append({"blob": talk.log.blobs.put(content), "size": len(content)})
    if pieces:
        switch = ModeSwitch(in_context=False, meta={NAMESPACE: {"file": file, "pieces": pieces}})
        talk.append(switch, expected=talk.position)


def kept(entries: Iterable[Entry]) -> list[Piece]:
    """The pieces of the files that were kept with a conversation, in order."""
    named = [obj(entry.event.meta.get(NAMESPACE)) for entry in entries if isinstance(entry.event, ModeSwitch)]
    pieces = [obj(piece) for original in named for piece in items(original.get("pieces"))]
    return [Piece(text(piece.get("blob")), whole(piece.get("size"))) for piece in pieces]
