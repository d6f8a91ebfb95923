"""Answers as the providers' SDKs give them, or as their JSON: the provider is known by the fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stenolog.domain.errors import CallerError
from stenolog.projections.formats.streaming import ModelResponse
from stenolog.projections.messages.json_fields import as_dict, as_list, as_str

from .anthropic import AnthropicEvents
from .gemini import GeminiChunks
from .http_model import ResponseReader
from .openai_answers import ChatChunks, ResponsesEvents, refusal

KNOWN = "OpenAI Chat Completions, OpenAI Responses, Anthropic Messages or Gemini"
URL_SAFE = str.maketrans("-_", "+/")


def answer_of(answer: object) -> ModelResponse:
    """Return the answer that an SDK's object, or its JSON, holds.

    Raises `ModelError` where it says nothing, and `CallerError` where it is none.
    """
    match given := as_json(answer):
        case {"choices": list()}:
            return ChatChunks("").read_answer(given)
        case {"output": list()}:
            return ResponsesEvents("").read_answer(given)
        case {"type": "message", "content": list()}:
            return AnthropicEvents().read_answer(given)
        case {"candidates": list()} | {"promptFeedback": dict()}:
            return GeminiChunks("").read_answer(given)
        case {"error": dict() | str()}:
            raise refusal(given)
        case _:
            raise CallerError(f"expected an answer of {KNOWN}, found {answer!r:.200}")


def reader_of(event: Mapping[str, Any]) -> ResponseReader:
    """Return a reader for the stream that begins with this event. Raises `CallerError`."""
    kind = as_str(event.get("type"))
    if "choices" in event:
        return ChatChunks("")
    if kind.startswith("response."):
        return ResponsesEvents("")
    if kind.startswith(("message_", "content_block_")) or kind == "ping":
        return AnthropicEvents()
    if not {"candidates", "promptFeedback", "usageMetadata"}.isdisjoint(event):
        return GeminiChunks("")
    raise CallerError(f"expected a chunk or an event of {KNOWN}, found {dict(event)!r:.200}")


def as_json(given: object) -> dict[str, Any]:
    """Return the JSON of an SDK's object, as its provider sent it. Raises `CallerError` for another."""
    if isinstance(given, Mapping):
        return dict(given)
    dump = getattr(given, "model_dump", None)
    if not callable(dump):
        raise CallerError(f"expected an object of an SDK of {KNOWN}, or its JSON, found {given!r:.200}")
    # `exclude_unset` gives back what the provider sent, without the SDK's defaults.
    if not type(given).__module__.startswith("google."):
        return as_dict(dump(mode="json", by_alias=True, exclude_unset=True, warnings=False))
    # Google's SDK sets fields that were not sent to None.
    return _standard_base64(as_dict(dump(mode="json", by_alias=True, exclude_none=True, warnings=False)))


def _standard_base64(response: dict[str, Any]) -> dict[str, Any]:
    """Return Google's response with signatures in standard base64."""
    # The API writes them so, and its SDK in the alphabet for URLs.
    for candidate in as_list(response.get("candidates")):
        for part in as_list(as_dict(as_dict(candidate).get("content")).get("parts")):
            if signature := as_str(as_dict(part).get("thoughtSignature")):
                part["thoughtSignature"] = signature.translate(URL_SAFE)
    return response
