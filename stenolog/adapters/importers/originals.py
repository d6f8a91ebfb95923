"""Keeping the imported file itself, as blobs: what it holds beyond its messages can be looked up later.

A file that has grown adds only the part that is new; the blobs of all parts, in order, are the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from stenolog.adapters.providers.json_fields import Json, as_dict, as_int, as_list, as_str
from stenolog.domain.entry import Entry
from stenolog.domain.events import ModeSwitch

if TYPE_CHECKING:
    from stenolog.adapters.log import Conversation

NAMESPACE = "stenolog.original"
PIECE = 8 * 1024 * 1024
"""Bytes of the largest blob that a file is cut into."""


class FilePiece(NamedTuple):
    """A part of a file: its blob and its size."""

    blob: str
    size: int


def keep(conversation: Conversation, stream: BinaryIO, file: str) -> None:
    """Keep what is new in the file as blobs, named by a mode switch that changes no setting."""
    stream.seek(0)
    for piece in file_pieces(conversation.entries()):
        if sha256(stream.read(piece.size)).hexdigest() != piece.blob:
            stream.seek(0)
            break
    pieces: list[Json] = []
    while content := stream.read(PIECE):
        pieces.append({"blob": conversation.log.blobs.put(content), "size": len(content)})
    if pieces:
        switch = ModeSwitch(in_context=False, meta={NAMESPACE: {"file": file, "pieces": pieces}})
        conversation.append(switch, expected=conversation.position)


def file_pieces(entries: Iterable[Entry]) -> list[FilePiece]:
    """The pieces of the files that were kept with a conversation, in order."""
    named = [
        as_dict(entry.event.meta.get(NAMESPACE)) for entry in entries if isinstance(entry.event, ModeSwitch)
    ]
    pieces = [as_dict(piece) for original in named for piece in as_list(original.get("pieces"))]
    return [FilePiece(as_str(piece.get("blob")), as_int(piece.get("size"))) for piece in pieces]
