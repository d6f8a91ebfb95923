"""The pieces of an answer that has not ended, and the parts that they add up to so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stenolog.domain.model import clean
from stenolog.domain.parts import AssistantPart, ProviderPart, ReasoningPart, RefusalPart, TextPart, ToolCall

from .base import ResponseDelta


def joined(pieces: Iterable[ResponseDelta]) -> list[ResponseDelta]:
    """Return the pieces, neighbours of one part as one; of an act the last."""
    together: list[ResponseDelta] = []
    texts: list[list[str]] = []
    for piece in pieces:
        # Each piece of an act is all of it, so the last one counts.
        if together and together[-1][:2] == piece[:2] and piece.kind == "act":
            together[-1], texts[-1] = piece, [piece.text]
        elif together and together[-1][:2] == piece[:2] and not (piece.id or piece.name):
            texts[-1].append(piece.text)
        else:
            # Texts are gathered in lists and joined once: adding to a text each time takes quadratic time.
            together.append(piece)
            texts.append([piece.text])
    return [piece._replace(text="".join(text)) for piece, text in zip(together, texts, strict=True)]


def drafted_parts(said: Sequence[ResponseDelta]) -> tuple[AssistantPart, ...]:
    """Return the pieces as parts, in the order in which they began; a call's arguments may be incomplete."""
    first: dict[int, ResponseDelta] = {}
    texts: dict[int, list[str]] = {}
    for piece in joined(said):
        begun = first.setdefault(piece.part, piece)
        # Some servers send the id or the name of a call only with a later piece.
        first[piece.part] = begun._replace(id=begun.id or piece.id, name=begun.name or piece.name)
        if piece.kind == "act":
            texts[piece.part] = [piece.text]
        else:
            texts.setdefault(piece.part, []).append(piece.text)
    made = (_part(begun, "".join(texts[index])) for index, begun in first.items())
    return tuple(part for part in made if part is not None)


def _part(begun: ResponseDelta, text: str) -> AssistantPart | None:
    text = clean(text)
    match begun.kind:
        case "tool_call":
            return ToolCall(id=clean(begun.id), name=clean(begun.name), arguments=text)
        case "act":
            return ProviderPart(provider=clean(begun.id), raw=text)
        case "reasoning":
            return ReasoningPart(text=text) if text else None
        case "refusal":
            return RefusalPart(text=text) if text else None
        case "text":
            return TextPart(text=text) if text else None
