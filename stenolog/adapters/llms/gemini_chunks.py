"""Assembly of Gemini's stream into the parts of an answer.

Each chunk has some parts: a text that goes on, or a whole call. A signature stays at the part that it came
with: it becomes a `ReasoningPart` directly before it, with the thought that led to it if there was one. A
text goes on with the next, unless that is signed itself.
"""

from __future__ import annotations

from typing import Any

from stenolog.adapters.providers.errors import redact
from stenolog.adapters.providers.json_fields import (
    Json,
    arguments,
    as_dict,
    as_int,
    as_list,
    as_str,
    compact_json,
)
from stenolog.domain.errors import ModelError
from stenolog.domain.json_types import clean
from stenolog.domain.parts import ProviderPart, ReasoningPart, ToolCall
from stenolog.domain.values import Usage

from .accumulator import PartAccumulator
from .base import Kind, ModelResponse, ResponseDelta

PROVIDER = "gemini"
ABOUT = frozenset({"thought", "thoughtSignature"})
"""Keys that describe a part and are none themselves."""


class GeminiChunks:
    """Answer that the chunks of one stream add up to."""

    def __init__(self, model: str) -> None:
        self._collecting = PartAccumulator(PROVIDER)
        self.model = model
        self._growing: tuple[Kind | None, int] = (None, 0)
        self._ids: set[str] = set()
        self._counts: dict[str, Any] = {}
        self.usage: Usage | None = None
        self._finish_reason = self._why = ""
        self._begun = False

    def read(self, chunk: Json) -> list[ResponseDelta]:
        """Take a chunk in; what of it is to be streamed on. Raises `ModelError`."""
        chunk = as_dict(chunk)
        self.model = as_str(chunk.get("modelVersion")) or self.model
        self._count(as_dict(chunk.get("usageMetadata")))
        blocked = as_dict(chunk.get("promptFeedback"))
        if blocked.get("blockReason"):
            message = as_str(blocked.get("blockReasonMessage"))
            why = f"the prompt was blocked: {blocked['blockReason']} {message}"
            raise ModelError("refused", redact(why))
        candidate = as_dict(next(iter(as_list(chunk.get("candidates"))), None))
        self._begun = self._begun or bool(candidate)
        self._finish_reason = as_str(candidate.get("finishReason")) or self._finish_reason
        self._why = as_str(candidate.get("finishMessage")) or self._why
        parts = as_list(as_dict(candidate.get("content")).get("parts"))
        return [said for part in parts for said in self._part(as_dict(part))]

    def answer(self) -> ModelResponse:
        """The whole answer. Raises `ModelError` where there is none."""
        if self._begun and not self._finish_reason:
            raise ModelError("invalid_response", "expected a finishReason in the stream, found none")
        try:
            return self._collecting.answer(self.model, self._finish_reason, self.usage)
        except ModelError as nothing:
            raise ModelError(nothing.category, redact(f"{nothing.message} {self._why}")) from None

    def _count(self, counted: dict[str, Any]) -> None:
        """Merge the counts of a chunk: those that it leaves out stand as they were."""
        self._counts |= {name: value for name, value in counted.items() if value is not None}
        self.usage = usage(self._counts)

    def _part(self, part: dict[str, Any]) -> list[ResponseDelta]:
        signature, said = clean(as_str(part.get("thoughtSignature"))), as_str(part.get("text"))
        called = as_dict(part.get("functionCall"))
        if part.get("thought") is True and said:
            grown = self._grow("reasoning", said)
            return grown + (self._sign(signature) if signature else [])
        if not called and "text" not in part and part.keys() - ABOUT:
            return self._opaque(part)
        signed = self._sign(signature) if signature else []
        if called:
            return signed + self._collecting.put(self._next("tool_call"), self._call(called))
        return signed + (self._grow("text", said) if said else [])

    def _grow(self, kind: Kind, said: str) -> list[ResponseDelta]:
        """More of the text or the thought that came last, or of a new one."""
        last, key = self._growing
        return self._collecting.add(key if last == kind else self._next(kind), kind, said)

    def _sign(self, signature: str) -> list[ResponseDelta]:
        """Put a signature before the part that comes next, on the thought that came last if there is one."""
        last, key = self._growing
        key = key if last == "reasoning" else self._next("reasoning")
        thought = ReasoningPart(text=self._collecting.text(key), provider=PROVIDER, signature=signature)
        self._growing = (None, key)
        return self._collecting.put(key, thought)

    def _opaque(self, part: dict[str, Any]) -> list[ResponseDelta]:
        raw = clean(compact_json(part))
        return self._collecting.put(
            self._next(None), ProviderPart(provider=PROVIDER, model=clean(self.model), raw=raw)
        )

    def _next(self, kind: Kind | None) -> int:
        self._growing = (kind, self._growing[1] + 1)
        return self._growing[1]

    def _call(self, called: dict[str, Any]) -> ToolCall:
        """A call; one that comes without an id has the first that is free."""
        free = (f"call_{n}" for n in range(1, len(self._ids) + 2))
        id = clean(as_str(called.get("id"))) or next(id for id in free if id not in self._ids)
        self._ids.add(id)
        name, given = clean(as_str(called.get("name"))), clean(arguments(called.get("args")))
        return ToolCall(id=id, name=name, arguments=given)


def usage(counted: dict[str, Any]) -> Usage | None:
    """Tokens; Gemini counts thoughts, and what its own tools read, beside the output and the prompt."""
    if not counted:
        return None
    thoughts = as_int(counted.get("thoughtsTokenCount"))
    return Usage(
        input=as_int(counted.get("promptTokenCount")) + as_int(counted.get("toolUsePromptTokenCount")),
        output=as_int(counted.get("candidatesTokenCount")) + thoughts,
        cache_read=as_int(counted.get("cachedContentTokenCount")),
        reasoning=thoughts,
    )
