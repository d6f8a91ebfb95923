"""Reading of answers: a format's reader of streams, and the parts that grow in it."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from stenolog.domain.base.model import clean
from stenolog.domain.errors import ModelError
from stenolog.domain.parts import AssistantPart, ProviderPart, ReasoningPart, RefusalPart, TextPart, ToolCall
from stenolog.domain.values import Usage
from stenolog.projections.messages.json_fields import Json, as_dict, compact_json

from .deltas import Kind, ModelResponse, ResponseDelta
from .failures import failure, stated

FILTERED = frozenset(
    {
        "content_filter", "refusal",
        "SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "ESCALATION", "MODEL_ARMOR",
        "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT",
    }
)  # fmt: skip
"""The finish reasons with which providers say that they kept the answer back."""


@dataclass
class _PartialPart:
    """An incomplete part. `half` is the first half of a surrogate pair."""

    index: int
    kind: Kind | None
    id: str = ""
    name: str = ""
    form: str = ""
    pieces: list[str] = field(default_factory=list)
    half: str = ""
    put: AssistantPart | None = None

    def more(self, text: str) -> str:
        text = self.half + text
        # A provider may cut an emoji in two: the first half waits for the second, and is not shown alone.
        self.half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        shown = clean(text.removesuffix(self.half))
        self.pieces.append(shown)
        return shown

    @property
    def text(self) -> str:
        return "".join(self.pieces) + clean(self.half)


class PartAccumulator:
    """The parts so far, each under its provider's key.

    A part begins, and has its index, with its first text (a call with its name). `add` and `put` return what
    to stream: one `ResponseDelta`, or none.
    """

    def __init__(self, provider: str) -> None:
        self.provider = provider
        self._growing: dict[Hashable, _PartialPart] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._growing

    def add(
        self, key: Hashable, kind: Kind, text: str = "", *, id: str = "", name: str = "", form: str = ""
    ) -> list[ResponseDelta]:
        """Add more of a part: text, or a call's arguments. The first id and name count."""
        begins = key not in self._growing
        # Providers begin parts that stay empty; a call is told at once, since it may have no arguments.
        if begins and kind != "tool_call" and not text:
            return []
        growing = self._part(key, kind)
        # The first one counts: some servers send another id, or the name again, with later pieces.
        growing.id, growing.name = growing.id or clean(id), growing.name or clean(name)
        growing.form = growing.form or form
        shown = growing.more(text)
        if begins and kind == "tool_call":
            return [ResponseDelta(growing.index, kind, shown, growing.id, growing.name)]
        return [ResponseDelta(growing.index, kind, shown)] if shown else []

    def put(self, key: Hashable, part: AssistantPart) -> list[ResponseDelta]:
        """Replace a part's streamed text by the complete part; return the deltas not yet streamed."""
        said: list[ResponseDelta] = []
        match part:
            case (
                TextPart(text="") | RefusalPart(text="") | ReasoningPart(text="", signature="", encrypted="")
            ):
                return said
            case ProviderPart():
                self._part(key, None)
            case ToolCall(id=id, name=name, arguments=arguments):
                said = self.add(key, "tool_call", self._unstreamed(key, arguments), id=id, name=name)
            case _:
                self._part(key, part.type)
                said = self.add(key, part.type, self._unstreamed(key, part.text))
        self._growing[key].put = part
        return said

    def text(self, key: Hashable) -> str:
        """Return a part's streamed text, or a call's arguments; "" before it began."""
        return self._growing[key].text if key in self._growing else ""

    def parts(self) -> tuple[AssistantPart, ...]:
        """Return all parts, in the order in which they began."""
        return tuple(growing.put or self._finished_part(growing) for growing in self._growing.values())

    def answer(self, model: str, finish_reason: str, usage: Usage | None) -> ModelResponse:
        """Return the whole answer. Raises `ModelError` if it is empty: `refused` or `invalid_response`."""
        parts = self.parts()
        # Thoughts alone are no answer.
        if not any(_says(part) for part in parts):
            category = "refused" if finish_reason in FILTERED else "invalid_response"
            reason = clean(finish_reason) or "none"
            raise ModelError(category, f"an answer with nothing in it (finish reason: {reason:.100})")
        return ModelResponse(parts, clean(model), clean(finish_reason), usage)

    def _part(self, key: Hashable, kind: Kind | None) -> _PartialPart:
        if key not in self._growing:
            self._growing[key] = _PartialPart(len(self._growing), kind)
        return self._growing[key]

    def _unstreamed(self, key: Hashable, text: str) -> str:
        streamed = self.text(key)
        return text[len(streamed) :] if text.startswith(streamed) else ""

    def _finished_part(self, growing: _PartialPart) -> AssistantPart:
        text = growing.text
        match growing.kind:
            case "reasoning":
                return ReasoningPart(text=text, provider=self.provider)
            case "refusal":
                return RefusalPart(text=text)
            case "tool_call":
                # A call without arguments is one with an empty object.
                given = text or ("" if growing.form else "{}")
                return ToolCall(id=growing.id, name=growing.name, arguments=given, form=growing.form)
            case _:
                return TextPart(text=text)


def _says(part: AssistantPart) -> bool:
    match part:
        case TextPart(text=text) | RefusalPart(text=text):
            return bool(text.strip())
        case _:
            return not isinstance(part, ReasoningPart)


class StreamReader(ABC):
    """A reader of one answer of an API, from the events of its stream or from the whole of it.

    `usage` is the provider's count so far, None before its first. `model` is its name for the model, `id`
    that for the answer. `why` are its words for an answer kept back. `others` counts further choices, which
    are not read.
    """

    provider: ClassVar[str] = ""
    end: ClassVar[str] = "a finish reason"
    """The sign that a stream was not cut."""
    counts: ClassVar[str] = ""
    """The key of the number in the answer to a question for the tokens of a request."""

    def __init__(self, model: str = "") -> None:
        self.model = model
        self.id = self.finish_reason = self.why = ""
        self.others = 0
        self.usage: Usage | None = None
        self.parts = PartAccumulator(self.provider)

    def is_event(self, given: Mapping[str, Any]) -> bool:
        return False

    def is_answer(self, given: Mapping[str, Any]) -> bool:
        """Return whether this is a whole answer; by default, an event."""
        return self.is_event(given)

    def failure(self, body: Json, status: int = 0) -> ModelError:
        """Return the error that a body or event states, in the provider's words."""
        return failure(*stated(body, status))

    @abstractmethod
    def deltas(self, event: dict[str, Any]) -> Iterable[ResponseDelta]:
        """Return what an event adds to the answer."""

    @property
    def ended(self) -> bool:
        """True after the answer's end: a cut stream looks like a short answer."""
        return bool(self.finish_reason)

    def read(self, event: Json) -> Iterable[ResponseDelta]:
        """Return `deltas`. Raises `ModelError` for an error event."""
        given = as_dict(event)
        if given.get("error") or given.get("type") == "error":
            raise self.failure(given)
        return self.deltas(given)

    def answer(self) -> ModelResponse:
        """Return the whole answer after the last event. Raises `ModelError` without an end, or if empty."""
        if not self.ended:
            raise ModelError("invalid_response", f"expected {self.end} at the end of the stream, found none")
        try:
            return self.parts.answer(self.model, self.finish_reason, self.usage)
        except ModelError as nothing:
            # The provider may say why, which is worth more than "nothing in it".
            raise ModelError(nothing.category, self.why or nothing.message) from None

    def read_answer(self, answer: Json) -> ModelResponse:
        """Return an answer that did not stream. Raises `ModelError` if there is none."""
        self.take(answer)
        return self.answer()

    def take(self, event: Json) -> None:
        """Read an event, without its deltas."""
        for _ in self.read(event):
            pass


def mended(given: dict[str, Any]) -> dict[str, Any]:
    """Return JSON without half surrogate pairs."""
    written = compact_json(given)
    # `clean` returns the same text if there is nothing to mend, and parsing it again is saved.
    whole_text = clean(written)
    return given if whole_text is written else as_dict(json.loads(whole_text))
