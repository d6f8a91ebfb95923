"""Answers of Gemini's API: chunks of a stream, or a response, which is one chunk.

A chunk has parts: a text that goes on, or a whole call. A signature becomes a `ReasoningPart` directly before
its part, with the thought that led to it, if any. A signed text begins a new one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stenolog.domain.base.model import clean
from stenolog.domain.errors import ModelError
from stenolog.domain.parts import AssistantPart, ReasoningPart, TextPart, ToolCall
from stenolog.domain.values import Usage
from stenolog.projections.formats.deltas import Kind, ResponseDelta
from stenolog.projections.formats.failures import failure, stated
from stenolog.projections.formats.reading import call_name
from stenolog.projections.formats.streaming import StreamReader, mended
from stenolog.projections.messages.json_fields import Json, as_dict, as_int, as_list, as_str

from .read import PROVIDER, answer_parts

SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")
KEYS = ("candidates", "promptFeedback", "usageMetadata")
URL_SAFE = str.maketrans("-_", "+/")


class GeminiStream(StreamReader):
    """Reader of one answer."""

    provider = PROVIDER
    end = "a finishReason"
    counts = "totalTokens"

    def __init__(self, model: str = "") -> None:
        super().__init__(model)
        self._growing: tuple[Kind | None, int] = (None, 0)
        self._ids: list[str] = []
        self._counts: dict[str, Any] = {}

    def is_event(self, given: Mapping[str, Any]) -> bool:
        return not given.keys().isdisjoint(KEYS)

    def failure(self, body: Json, status: int = 0) -> ModelError:
        said = stated(body, status)
        first = next(iter(body), None) if isinstance(body, list) else body
        details = [as_dict(each) for each in as_list(as_dict(as_dict(first).get("error")).get("details"))]
        reasons = [as_str(detail.get("reason")) for detail in details]
        made = failure(said.status, " ".join([said.code, *reasons]), said.message)
        # Google answers a wrong key with 400, as though the request were at fault.
        if "API_KEY_INVALID" in reasons:
            made.category = "unauthorized"
        # Google says the same of a limit, whether waiting or money would help. Only if waiting helps does it
        # name a time to wait.
        elif (wait := next(filter(None, map(_seconds, details)), None)) is not None:
            made.category = "rate_limited" if said.status == 429 else made.category
            made.retry_after = wait
        return made

    def deltas(self, event: dict[str, Any]) -> Iterator[ResponseDelta]:
        self.id = as_str(event.get("responseId")) or self.id
        self.model = as_str(event.get("modelVersion")) or self.model
        self._count(as_dict(event.get("usageMetadata")))
        blocked = as_dict(event.get("promptFeedback"))
        if blocked.get("blockReason"):
            message = as_str(blocked.get("blockReasonMessage"))
            raise ModelError("refused", f"the prompt was blocked: {blocked['blockReason']} {message}")
        candidate, *others = map(as_dict, as_list(event.get("candidates")) or [None])
        self.others = max(self.others, len(others))
        self.finish_reason = as_str(candidate.get("finishReason")) or self.finish_reason
        if why := as_str(candidate.get("finishMessage")):
            self.why = f"{self.finish_reason}: {why}"
        for part in as_list(as_dict(candidate.get("content")).get("parts")):
            yield from self._part(as_dict(part))

    def _count(self, counted: dict[str, Any]) -> None:
        # A chunk repeats only some of the counts.
        self._counts |= {name: value for name, value in counted.items() if value is not None}
        self.usage = usage(self._counts)

    def _part(self, part: dict[str, Any]) -> Iterator[ResponseDelta]:
        # A text may end within a character, which goes on in the next part.
        given = part if isinstance(part.get("text"), str) else mended(part)
        for made in answer_parts([given], PROVIDER, clean(self.model), self._call_id):
            yield from self._add(made)

    def _add(self, made: AssistantPart) -> Iterator[ResponseDelta]:
        match made:
            case TextPart(text=text):
                yield from self._grow("text", text)
            case ReasoningPart(text=text, signature=signature):
                yield from self._grow("reasoning", text)
                yield from self._sign(clean(signature))
            case ToolCall():
                self._ids.append(made.id)
                yield from self.parts.put(self._next("tool_call"), made)
            case _:
                yield from self.parts.put(self._next(None), made)

    def _call_id(self, nth: int, name: str) -> str:
        return call_name(self._ids)

    def _grow(self, kind: Kind, said: str) -> list[ResponseDelta]:
        last, key = self._growing
        return self.parts.add(key if last == kind else self._next(kind), kind, said) if said else []

    def _sign(self, signature: str) -> list[ResponseDelta]:
        if not signature:
            return []
        last, key = self._growing
        # A signature belongs to the thought that came last, if no other part came since.
        key = key if last == "reasoning" else self._next("reasoning")
        thought = ReasoningPart(text=self.parts.text(key), provider=PROVIDER, signature=signature)
        # Signed: what comes next must not be added to it.
        self._growing = (None, key)
        return self.parts.put(key, thought)

    def _next(self, kind: Kind | None) -> int:
        self._growing = (kind, self._growing[1] + 1)
        return self._growing[1]


def _seconds(detail: dict[str, Any]) -> float | None:
    found = SECONDS.fullmatch(as_str(detail.get("retryDelay")))
    return float(found[1]) if found else None


def usage(counted: dict[str, Any]) -> Usage | None:
    """Return the tokens used; None if nothing was counted."""
    # Gemini counts thoughts beside its output, and the input of its own tools beside its input.
    if not counted:
        return None
    thoughts = as_int(counted.get("thoughtsTokenCount"))
    return Usage(
        input=as_int(counted.get("promptTokenCount")) + as_int(counted.get("toolUsePromptTokenCount")),
        output=as_int(counted.get("candidatesTokenCount")) + thoughts,
        cache_read=as_int(counted.get("cachedContentTokenCount")),
        reasoning=thoughts,
    )


def standard_base64(response: dict[str, Any]) -> dict[str, Any]:
    """Return a response of Google's SDK with signatures in standard base64, as the API writes them."""
    for candidate in as_list(response.get("candidates")):
        for part in as_list(as_dict(as_dict(candidate).get("content")).get("parts")):
            if signature := as_str(as_dict(part).get("thoughtSignature")):
                part["thoughtSignature"] = signature.translate(URL_SAFE)
    return response
