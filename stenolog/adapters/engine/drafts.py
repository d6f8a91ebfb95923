"""Drafts of streamed answers, stored beside the log until an answer is complete.

A row is a JSON list: a list for each `ResponseDelta`, and an object where the `Progress` changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import NamedTuple

from stenolog.adapters.llms.base import Progress, ResponseDelta
from stenolog.domain.parts import AssistantPart, ProviderPart, ReasoningPart, RefusalPart, TextPart, ToolCall
from stenolog.domain.values import Usage


class Drafted(NamedTuple):
    """The kept draft of a call whose engine died."""

    parts: tuple[AssistantPart, ...] = ()
    progress: Progress = Progress()


class StreamDraft:
    """The pieces of one answer, and how many of them are kept already."""

    def __init__(self, fence: int) -> None:
        self.fence = fence
        self.progress = Progress()
        self._said: list[ResponseDelta] = []
        self._kept = 0, self.progress

    def add(self, piece: ResponseDelta) -> None:
        """Take a piece in."""
        self._said.append(piece)

    @property
    def is_kept(self) -> bool:
        """Return whether all its pieces are stored."""
        return self._kept == self._progress

    def unkept(self) -> tuple[bytes, tuple[int, Progress]]:
        """Return the pieces that are not kept yet, as JSON, and the mark to give to `keep` once they are."""
        number, progress = self._kept
        rows: list[object] = [*joined(self._said[number:])]
        if self.progress != progress:
            rows.append(_dumped(self.progress))
        return json.dumps(rows).encode(), self._progress

    def keep(self, mark: tuple[int, Progress]) -> None:
        """Note that the pieces up to the mark are kept."""
        self._kept = mark

    @property
    def parts(self) -> tuple[AssistantPart, ...]:
        """Return the parts streamed so far."""
        return parts(self._said)

    @property
    def drafted(self) -> Drafted:
        """The draft as `load` would give it."""
        return Drafted(self.parts, self.progress)

    @property
    def _progress(self) -> tuple[int, Progress]:
        return len(self._said), self.progress


def keep(drafts: Iterable[StreamDraft], write: Callable[[list[tuple[int, bytes]]], None]) -> None:
    """Write what is new in the drafts; it counts as kept once that is done."""
    news = [(draft, *draft.unkept()) for draft in drafts if not draft.is_kept]
    write([(draft.fence, said) for draft, said, _ in news])
    for draft, _, mark in news:
        draft.keep(mark)


def load(kept: Iterable[bytes]) -> Drafted:
    """Return the draft from its stored rows."""
    rows = [row for text in kept for row in json.loads(text)]
    progress = [_loaded(row) for row in rows if isinstance(row, dict)]
    return Drafted(parts([ResponseDelta(*row) for row in rows if isinstance(row, list)]), *progress[-1:])


def _dumped(progress: Progress) -> dict[str, object]:
    usage = None if progress.usage is None else asdict(progress.usage)
    return {**progress._asdict(), "usage": usage}


def _loaded(row: dict[str, object]) -> Progress:
    usage = row.get("usage")
    return Progress(**{**row, "usage": Usage(**usage) if isinstance(usage, dict) else None})  # type: ignore[arg-type]


def joined(pieces: Iterable[ResponseDelta]) -> list[ResponseDelta]:
    """The pieces, neighbours of one part as one; of an act the last."""
    together: list[ResponseDelta] = []
    texts: list[list[str]] = []
    for piece in pieces:
        if together and together[-1][:2] == piece[:2] and piece.kind == "act":
            together[-1], texts[-1] = piece, [piece.text]
        elif together and together[-1][:2] == piece[:2] and not (piece.id or piece.name):
            texts[-1].append(piece.text)
        else:
            together.append(piece)
            texts.append([piece.text])
    return [piece._replace(text="".join(text)) for piece, text in zip(together, texts, strict=True)]


def parts(said: Sequence[ResponseDelta]) -> tuple[AssistantPart, ...]:
    """The pieces as parts, in the order in which they began; a call's arguments may have been cut off."""
    first: dict[int, ResponseDelta] = {}
    texts: dict[int, list[str]] = {}
    for piece in joined(said):
        begun = first.setdefault(piece.part, piece)
        first[piece.part] = begun._replace(id=begun.id or piece.id, name=begun.name or piece.name)
        if piece.kind == "act":
            texts[piece.part] = [piece.text]
        else:
            texts.setdefault(piece.part, []).append(piece.text)
    made = (_part(begun, "".join(texts[index])) for index, begun in first.items())
    return tuple(part for part in made if part is not None)


def _part(begun: ResponseDelta, text: str) -> AssistantPart | None:
    text = clean_text(text)
    match begun.kind:
        case "tool_call":
            return ToolCall(id=clean_text(begun.id), name=clean_text(begun.name), arguments=text)
        case "act":
            return ProviderPart(provider=clean_text(begun.id), raw=text)
        case "reasoning":
            return ReasoningPart(text=text) if text else None
        case "refusal":
            return RefusalPart(text=text) if text else None
        case "text":
            return TextPart(text=text) if text else None


def clean_text(text: str) -> str:
    """The text as the log can hold it: a piece may end within a character, or be garbage."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
