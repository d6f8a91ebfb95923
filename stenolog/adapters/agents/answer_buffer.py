"""Answer of an agent's program, built from its output, and permissions that it asks for."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias, get_args

from stenolog.adapters.models.base import Progress
from stenolog.adapters.providers.failures import error_category as category_of
from stenolog.domain.base.model import clean
from stenolog.domain.errors import ModelError
from stenolog.domain.events import ErrorCategory
from stenolog.domain.parts import AssistantPart, ProviderPart, ReasoningPart, TextPart
from stenolog.domain.values import Usage
from stenolog.projections.formats.deltas import ModelResponse, ResponseDelta
from stenolog.projections.messages.json_fields import compact_json

LARGEST_NOTE = 64_000
"""So many characters of JSON are kept of one thing that the agent did for itself; of a larger one, each text
in it only up to `LONGEST_TEXT`."""
LONGEST_TEXT = 1_000


@dataclass
class _Act:
    """Something that the agent did, as JSON."""

    index: int
    raw: str


@dataclass
class _Words:
    """A part that grows while the agent speaks."""

    kind: Literal["text", "reasoning"]
    index: int
    pieces: list[str] = field(default_factory=list)
    signature: str = ""


class ResponseBuilder:
    """One answer under construction; a reader of the agent's output adds what it finds.

    `provider` marks parts that only this agent understands. `session`, `model`, `usage` and `finish_reason`
    are set when known; `usage_is_total`: `usage` counts the whole session. `alive` is set at each sign of
    life. `resumes`: the session can be resumed though this answer fails. `process` identifies the process
    group; `spent` is what its process has cost before, in dollars.

    `heard`, `counted` and `current` are the reader's: what it must not repeat, the tokens of each of the
    agent's own calls, and the current call.
    """

    def __init__(self, provider: str, session: str = "", *, resumes: bool = False) -> None:
        self.provider = provider
        self.session = session
        self.resumes = resumes
        self.process = ""
        self.spent = 0.0
        self.alive = False
        self.usage_is_total = False
        self.counted: dict[str, dict[str, Any]] = {}
        self.current = ""
        self.model = ""
        self.finish_reason = ""
        self.usage: Usage | None = None
        self.ended = False
        self.heard: set[str] = set()
        self._parts: list[_Words | _Act] = []
        self._acts: dict[str, _Act] = {}
        self._new: list[ResponseDelta] = []
        self._told = Progress()
        self._pausing = False

    def add_text(self, text: str) -> None:
        """Add more text."""
        self._add("text", text)

    def add_reasoning(self, text: str, signature: str = "") -> None:
        """Add more of the reasoning, and its signature at the end."""
        self._add("reasoning", text).signature += signature

    def break_part(self) -> None:
        """Begin a new part with the next words."""
        self._pausing = True

    def add_note(self, thing: dict[str, Any], key: str = "") -> None:
        """Add an action of the agent itself, such as a call of its own tools; we never run it.

        It replaces an earlier note of the same key.
        """
        raw = _compact(thing)
        act = self._acts.get(key) if key else None
        if act is None:
            act = _Act(len(self._parts), raw)
            self._parts.append(act)
            if key:
                self._acts[key] = act
        act.raw = raw
        self._new = [piece for piece in self._new if piece.part != act.index]
        self._new.append(ResponseDelta(act.index, "act", raw, self.provider))

    def costs(self, dollars: object) -> None:
        """Set the cost from the process's total, less what it had cost before."""
        if not isinstance(dollars, int | float) or not 0 <= dollars < math.inf:
            return
        cost = round(max(0.0, dollars - self.spent) * 1_000_000)
        self.usage = replace(self.usage or Usage(), cost=cost)
        self.spent = float(dollars)

    def finish(self, text: str = "") -> None:
        """Complete the answer; `text` is all of it, if the agent did not stream."""
        if text and not self.said_something:
            self.add_text(text)
        self.ended = True

    def fail(self, words: str, category: str = "", retry_after: object = None) -> NoReturn:
        """Raise the agent's failure, in this category or the one that its words name."""
        known = category if category in get_args(ErrorCategory) else category_of(words)
        wait = float(retry_after) if isinstance(retry_after, int | float) else None
        self.ended = True
        raise ModelError(known, words or "it failed, and did not say why", retry_after=wait)

    @property
    def said_something(self) -> bool:
        """True if there has been any text."""
        return any(isinstance(part, _Words) and part.kind == "text" for part in self._parts)

    @property
    def progress(self) -> Progress:
        """The progress of the turn, in case it fails."""
        session = self.session if self.resumes else ""
        return Progress(session, self.model, None if self.usage_is_total else self.usage, self.process)

    def pieces(self) -> list[ResponseDelta | Progress]:
        """Return the pieces since the last call, or a sign of life if there are none."""
        new: list[ResponseDelta | Progress] = [*self._new]
        progress = self.progress
        if progress != self._told or (self.alive and not new):
            new.insert(0, progress)
        self._new, self._told, self.alive = [], progress, False
        return new

    @property
    def answer(self) -> ModelResponse:
        """The whole answer, without empty parts."""
        parts = tuple(part for each in self._parts if (part := self._complete_part(each)) is not None)
        return ModelResponse(
            parts, self.model, self.finish_reason, self.usage, self.session, self.usage_is_total
        )

    def _add(self, kind: Literal["text", "reasoning"], text: str) -> _Words:
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, _Words) or last.kind != kind or self._pausing:
            last = _Words(kind, len(self._parts))
            self._parts.append(last)
            self._pausing = False
        if text := clean(text):
            last.pieces.append(text)
            self._new.append(ResponseDelta(last.index, kind, text))
        return last

    def _complete_part(self, part: _Words | _Act) -> AssistantPart | None:
        if isinstance(part, _Act):
            return ProviderPart(provider=self.provider, raw=part.raw)
        text = "".join(part.pieces)
        if part.kind == "text":
            return TextPart(text=text) if text.strip() else None
        if not text and not part.signature:
            return None
        return ReasoningPart(text=text, provider=self.provider, signature=part.signature)


def _compact(thing: dict[str, Any]) -> str:
    raw = _dumped(thing)
    return raw if len(raw) <= LARGEST_NOTE else _dumped(_shortened(thing))


def _dumped(thing: Any) -> str:
    return clean(compact_json(thing))


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


class PermissionRequest(NamedTuple):
    """Permission that an agent asks for.

    `title` and `kind` (read, edit, execute …) describe the action; `arguments` is the raw JSON. `lane` is the
    one that the agent works for.
    """

    title: str
    kind: str
    arguments: str
    lane: str
    conversation: str


Permit: TypeAlias = Callable[[PermissionRequest], bool | Awaitable[bool]]
"""A function that permits a request once or refuses it. An error counts as a refusal."""
