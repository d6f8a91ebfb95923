"""How large a piece is at most, whichever wire it goes out on: so that one cut holds for all of them."""

from __future__ import annotations

import json

from stenolog.domain.parts import File, Image, Opaque, Reasoning, Refusal, Text, ToolCall
from stenolog.domain.policy import Budget

from .model import Piece, Size
from .names import arguments_text
from .quoting import quote
from .tokens import IMAGE_TOKENS, OVERHEAD, Counter

SLACK = 8
"""Tokens that a wire may add to a piece: a label, a delimiter, a placeholder."""
CHARACTERS = 80
"""The same in characters."""
FRAME, CALL_FRAME = 90, 120
"""Bytes of JSON around a piece, and around each of its parts, at most."""
PICTURE = 8_000_000
"""Bytes that a picture may come to where its blob is not at hand: what the strictest provider takes."""


class Measure:
    """Measures pieces in what a budget limits, and in messages; what is not limited is 0."""

    def __init__(self, budget: Budget | None, counter: Counter) -> None:
        self.counter = counter
        self.tokens = budget is not None and budget.tokens is not None
        self.characters = budget is not None and budget.characters is not None
        self.bytes = budget is not None and budget.bytes is not None

    def of(self, piece: Piece) -> Size:
        """The size of a piece."""
        words, media = said_in(piece)
        return Size(
            1,
            sum(map(len, words)) + CHARACTERS if self.characters else 0,
            self._tokens(words, media) if self.tokens else 0,
            _bytes(piece, words, media) if self.bytes else 0,
        )

    def _tokens(self, words: list[str], media: int) -> int:
        return sum(map(self.counter.count, words)) + media * IMAGE_TOKENS + OVERHEAD + SLACK


def _bytes(piece: Piece, words: list[str], media: int) -> int:
    """The texts as JSON; arguments are text within JSON on some wires, and so escaped twice."""
    arguments = (_escaped(part.arguments) for part in piece.parts if isinstance(part, ToolCall))
    twice = sum(len(_escaped(once)) - len(once) for once in arguments)
    text = sum(len(_escaped(word).encode()) for word in words) + twice
    return text + media * PICTURE + FRAME + CALL_FRAME * len(piece.parts)


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def said_in(piece: Piece) -> tuple[list[str], int]:
    """The texts of a piece as they will be written, and how many pictures and files it has."""
    words: list[str] = []
    media = 0
    for part in piece.parts:
        match part:
            case Text(text=text) | Refusal(text=text):
                words.append(text)
            case Reasoning(text=text, signature=signature, encrypted=encrypted):
                words += [word for word in (text, signature, encrypted) if word]
            case ToolCall(name=name, arguments=arguments):
                words += [name, arguments_text(arguments)[0]]
            case Opaque(raw=raw):
                words.append(raw)
            case Image() | File():
                media += 1
    if piece.speaker:
        words = [quote("message", "\n".join(words), sender=piece.speaker)] if words else []
    return words, media
