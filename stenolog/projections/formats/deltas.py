"""Answers of models as they stream: pieces, parts, and the whole answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from stenolog.domain.base.model import clean
from stenolog.domain.parts import AssistantPart, ProviderPart, ReasoningPart, RefusalPart, TextPart, ToolCall
from stenolog.domain.values import Usage

Kind: TypeAlias = Literal["text", "reasoning", "refusal", "tool_call", "act"]


class ResponseDelta(NamedTuple):
    """A piece of a streaming answer: what to add to the part with this index.

    `text` is more text, or more of a call's arguments; a call's first piece has its `id` and `name`. Indexes
    count from 0, in the order in which the parts begin.

    An `act` is something that a program did by itself, such as a call of its own tools: `text` is all of it
    as JSON, and replaces an earlier piece with the same index; `id` is the provider that understands it.
    """

    part: int
    kind: Kind
    text: str = ""
    id: str = ""
    name: str = ""


class ModelResponse(NamedTuple):
    """A whole answer: the last item of a stream. `session` is a stateful backend's.

    `usage_is_total`: `usage` counts the whole session. The engine subtracts what the log already has.
    """

    parts: tuple[AssistantPart, ...]
    model: str = ""
    finish_reason: str = ""
    usage: Usage | None = None
    session: str = ""
    usage_is_total: bool = False


def joined(pieces: Iterable[ResponseDelta]) -> list[ResponseDelta]:
    """Return the pieces, neighbours of one part as one; an act's last only."""
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
    """Return the pieces as parts, in order; a call's arguments may be incomplete."""
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
