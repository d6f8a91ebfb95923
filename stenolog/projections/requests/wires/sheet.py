"""What a wire writes on: the messages so far, and the explanation of each part as it is written."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from stenolog.domain.parts import File, Image, Part, Refusal, Text
from stenolog.projections.requests.model import (
    BlobText,
    Body,
    Disposition,
    Explained,
    Omitted,
    Piece,
    Rendered,
)
from stenolog.projections.requests.prefix import Prefix
from stenolog.projections.requests.quoting import quote
from stenolog.projections.requests.tokens import count, count_part, count_parts

EMPTY_BLOBS: Mapping[str, bytes] = {}


class Sheet:
    """Collects the messages of a body and explains every part of them."""

    def __init__(self, blobs: Mapping[str, bytes]) -> None:
        self.messages: list[Body] = []
        self.parts: list[Explained] = []
        self.omitted: list[Omitted] = []
        self.blobs = blobs

    def explain(self, piece: Piece, out: str, *, rule: str = "", message: int | None = None) -> None:
        """Say where what was just written came from."""
        disposition: Disposition = piece.disposition if not rule else "reworded"
        said = count_parts(piece.parts) if piece.tokens_in < 0 else piece.tokens_in
        tokens_in = 0 if piece.disposition == "added" else said
        at = len(self.messages) - 1 if message is None else message
        self.parts.append(
            Explained(piece.positions, disposition, rule or piece.rule, tokens_in, count(out), at, piece.role)
        )

    def explain_prefix(
        self, rule: str, text: str, role: str, disposition: Disposition = "kept", message: int = -1
    ) -> None:
        """Say what stands before the conversation; `message` -1: outside the messages."""
        tokens = count(text)
        self.parts.append(Explained((), disposition, rule, tokens, tokens, message, role))

    def omit(self, piece: Piece, part: Part, rule: str) -> None:
        """Say that a part of a piece cannot be carried on this wire."""
        self.omitted.append(Omitted(piece.positions, rule, count_part(part)))

    def rendered(self, body: Body) -> Rendered:
        """The body with everything that was said about it."""
        return Rendered(body, tuple(self.parts), tuple(self.omitted))

    def data(self, part: Image | File) -> BlobText | None:
        """The base64 text of a part's blob; None where it has none, or the blob is gone."""
        found = self.blobs.get(part.blob) if part.blob else None
        return None if found is None else BlobText(base64.b64encode(found).decode(), part.blob)


def texts(piece: Piece) -> list[str]:
    """The texts of a piece; somebody else's are quoted as one, with who said it."""
    said = [part.text for part in piece.parts if isinstance(part, Text | Refusal)]
    if piece.speaker and said:
        return [quote("message", "\n".join(said), sender=piece.speaker)]
    return said


def media(piece: Piece) -> list[Image | File]:
    """The pictures and files of a piece."""
    return [part for part in piece.parts if isinstance(part, Image | File)]


def placeholder(part: Image | File, why: str) -> str:
    """What stands in the text for a picture or a file that cannot be sent."""
    name = f" {part.name}" if isinstance(part, File) and part.name else ""
    return f"[{part.type}{name} ({part.media_type}) {why}]"


def as_text_rule(shown: list[Body]) -> str:
    """The rule to name where a picture or a file became a line of text."""
    return "media-as-text" if any(block["type"] == "text" for block in shown) else ""


def explain_tools(sheet: Sheet, prefix: Prefix, tools: list[dict[str, Any]]) -> None:
    """One explanation for the tools of the card, one for the stubs."""
    for made, rule in ((False, "tools"), (True, "tool-stub")):
        written = [
            shape
            for tool, shape in zip(prefix.tools, tools, strict=True)
            if (tool.name in prefix.stubs) is made
        ]
        if written:
            text = json.dumps(written, ensure_ascii=False)
            sheet.explain_prefix(rule, text, "tools", "added" if made else "kept")
