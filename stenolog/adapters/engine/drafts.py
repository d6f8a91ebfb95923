"""What has been streamed of an answer, kept beside the log while it is being written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from stenolog.adapters.llms.port import Said
from stenolog.domain.parts import AssistantPart, Reasoning, Refusal, Text, ToolCall


class Draft:
    """The pieces of one answer, and how many of them are kept already."""

    def __init__(self, fence: int) -> None:
        self.fence = fence
        self._said: list[Said] = []
        self._kept = 0

    def add(self, piece: Said) -> None:
        """Take a piece in."""
        self._said.append(piece)

    @property
    def is_kept(self) -> bool:
        """Whether all its pieces are."""
        return self._kept == len(self._said)

    def unkept(self) -> tuple[bytes, int]:
        """The pieces that are not kept yet, as JSON, and how many there are with those that are."""
        pieces = self._said[self._kept :]
        return json.dumps(joined(pieces)).encode(), self._kept + len(pieces)

    def keep(self, number: int) -> None:
        """So many of its pieces are kept by now."""
        self._kept = number

    @property
    def parts(self) -> tuple[AssistantPart, ...]:
        """What has been said so far."""
        return parts(self._said)


def keep(drafts: Iterable[Draft], write: Callable[[list[tuple[int, bytes]]], None]) -> None:
    """Write what is new in the drafts; it counts as kept once that is done."""
    news = [(draft, *draft.unkept()) for draft in drafts if not draft.is_kept]
    write([(draft.fence, said) for draft, said, _ in news])
    for draft, _, number in news:
        draft.keep(number)


def load(kept: Iterable[bytes]) -> tuple[AssistantPart, ...]:
    """What had been said, from what was kept."""
    return parts([Said(*piece) for text in kept for piece in json.loads(text)])


def joined(pieces: Iterable[Said]) -> list[Said]:
    """The pieces, neighbours of one part as one."""
    together: list[Said] = []
    texts: list[list[str]] = []
    for piece in pieces:
        if together and together[-1][:2] == piece[:2] and not (piece.id or piece.name):
            texts[-1].append(piece.text)
        else:
            together.append(piece)
            texts.append([piece.text])
    return [piece._replace(text="".join(text)) for piece, text in zip(together, texts, strict=True)]


def parts(said: Sequence[Said]) -> tuple[AssistantPart, ...]:
    """The pieces as parts, in the order in which they began; a call's arguments may have been cut off."""
    first: dict[int, Said] = {}
    texts: dict[int, list[str]] = {}
    for piece in joined(said):
        begun = first.setdefault(piece.part, piece)
        first[piece.part] = begun._replace(id=begun.id or piece.id, name=begun.name or piece.name)
        texts.setdefault(piece.part, []).append(piece.text)
    made = (_part(begun, "".join(texts[index])) for index, begun in first.items())
    return tuple(part for part in made if part is not None)


def _part(begun: Said, text: str) -> AssistantPart | None:
    text = whole(text)
    match begun.kind:
        case "tool_call":
            return ToolCall(id=whole(begun.id), name=whole(begun.name), arguments=text)
        case "reasoning":
            return Reasoning(text=text) if text else None
        case "refusal":
            return Refusal(text=text) if text else None
        case "text":
            return Text(text=text) if text else None


def whole(text: str) -> str:
    """The text as the log can hold it: a piece may end within a character, or be garbage."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
