"""What has been heard of one answer of an agent so far."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, get_args

from stenolog.adapters.llms.port import Answer, Said
from stenolog.adapters.transcripts.failures import category as category_of
from stenolog.domain.errors import ModelFailed
from stenolog.domain.events import ErrorCategory
from stenolog.domain.parts import AssistantPart, Opaque, Reasoning, Text
from stenolog.domain.values import Usage

LARGEST_NOTE = 64_000
"""So many characters of JSON are kept of one thing that the agent did for itself; of a larger one, each text
in it only up to `LONGEST_TEXT`."""
LONGEST_TEXT = 1_000


@dataclass
class _Words:
    """A part that grows while the agent speaks."""

    kind: Literal["text", "reasoning"]
    index: int
    pieces: list[str] = field(default_factory=list)
    signature: str = ""


class Turn:
    """One answer while it is being heard: a reader of an agent's output tells it what it finds.

    `provider` marks what only this agent understands. `session`, `model`, `usage` and `finish_reason` are set
    when they are known; `heard` is a reader's own note of what it must not say twice.
    """

    def __init__(self, provider: str, session: str = "") -> None:
        self.provider = provider
        self.session = session
        self.model = ""
        self.finish_reason = ""
        self.usage: Usage | None = None
        self.ended = False
        self.heard: set[str] = set()
        self._parts: list[_Words | Opaque] = []
        self._notes: dict[str, int] = {}
        self._spoken = 0
        self._new: list[Said] = []
        self._pausing = False

    def says(self, text: str) -> None:
        """More text."""
        self._add("text", text)

    def thinks(self, text: str, signature: str = "") -> None:
        """More of what it thinks, and at the end the proof of it."""
        self._add("reasoning", text).signature += signature

    def pauses(self) -> None:
        """What it says next is a part of its own."""
        self._pausing = True

    def does(self, thing: dict[str, Any], key: str = "") -> None:
        """Something that the agent does by itself, such as a call of its own tools: kept, never run by us.

        A thing with the key of an earlier one takes its place.
        """
        note = Opaque(provider=self.provider, raw=_compact(thing))
        if key and key in self._notes:
            self._parts[self._notes[key]] = note
            return
        if key:
            self._notes[key] = len(self._parts)
        self._parts.append(note)

    def ends(self, text: str = "") -> None:
        """The answer is whole; `text` is all of it, for an agent that has not said it piece by piece."""
        if text and not self.said_something:
            self.says(text)
        self.ended = True

    def fails(self, words: str, category: str = "", retry_after: object = None) -> NoReturn:
        """The agent says that it failed: in this category, or in the one that its words name."""
        known = category if category in get_args(ErrorCategory) else category_of(words)
        wait = float(retry_after) if isinstance(retry_after, int | float) else None
        raise ModelFailed(known, words or "it failed, and did not say why", retry_after=wait)

    @property
    def said_something(self) -> bool:
        """Whether there has been any text."""
        return any(isinstance(part, _Words) and part.kind == "text" for part in self._parts)

    def pieces(self) -> list[Said]:
        """What has been said since this was last asked."""
        new, self._new = self._new, []
        return new

    @property
    def answer(self) -> Answer:
        """All of it; a part without any words is left out."""
        parts = tuple(part for each in self._parts if (part := self._whole(each)) is not None)
        return Answer(parts, self.model, self.finish_reason, self.usage, self.session)

    def _add(self, kind: Literal["text", "reasoning"], text: str) -> _Words:
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, _Words) or last.kind != kind or self._pausing:
            last = _Words(kind, self._spoken)
            self._parts.append(last)
            self._spoken += 1
            self._pausing = False
        if text := _sound(text):
            last.pieces.append(text)
            self._new.append(Said(last.index, kind, text))
        return last

    def _whole(self, part: _Words | Opaque) -> AssistantPart | None:
        if isinstance(part, Opaque):
            return part
        text = "".join(part.pieces)
        if part.kind == "text":
            return Text(text=text) if text.strip() else None
        if not text and not part.signature:
            return None
        return Reasoning(text=text, provider=self.provider, signature=part.signature)


def _sound(text: str) -> str:
    """The text without halves of characters, which JSON can hold and no UTF-8."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _compact(thing: dict[str, Any]) -> str:
    raw = _dumped(thing)
    return raw if len(raw) <= LARGEST_NOTE else _dumped(_shortened(thing))


def _dumped(thing: Any) -> str:
    return _sound(json.dumps(thing, ensure_ascii=False, separators=(",", ":")))


def _shortened(thing: Any) -> Any:
    match thing:
        case str() if len(thing) > LONGEST_TEXT:
            return f"{thing[:LONGEST_TEXT]}… ({len(thing):,} characters in all)"
        case list():
            return [_shortened(item) for item in thing]
        case dict():
            return {name: _shortened(item) for name, item in thing.items()}
        case _:
            return thing
