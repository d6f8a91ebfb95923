"""Answers of OpenAI's Responses API: events of a stream, or a response."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from stenolog.domain.values import Usage
from stenolog.projections.formats.deltas import Kind, ModelResponse, ResponseDelta
from stenolog.projections.formats.openai_chat.stream import usage
from stenolog.projections.formats.streaming import StreamReader, mended
from stenolog.projections.messages.json_fields import Json, as_dict, as_int, as_list, as_str

from .read import PROVIDER, assistant_parts

DELTAS: dict[str, Kind] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.function_call_arguments.delta": "tool_call",
}
ASKS = "response.create"
"""The message with which a client asks for a response on a websocket."""
ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
BREAK = "\n\n"
"""The separator of a summary's sections, and so of a thought's paragraphs."""


class OpenAIResponsesStream(StreamReader):
    """Reader of one answer.

    A part's key is its item's index in the output, and its index in a message. The finished item replaces
    what streamed.
    """

    provider = PROVIDER
    end = "a completed response"
    counts = "input_tokens"

    def __init__(self, model: str = "") -> None:
        super().__init__(model)
        self._done: set[int] = set()

    def is_event(self, given: Mapping[str, Any]) -> bool:
        return as_str(given.get("type")).startswith("response.")

    def is_answer(self, given: Mapping[str, Any]) -> bool:
        return isinstance(given.get("output"), list)

    def deltas(self, event: dict[str, Any]) -> Iterator[ResponseDelta]:
        place = as_int(event.get("output_index"))
        match event.get("type"):
            case "response.created":
                self._about(as_dict(event.get("response")))
            case "response.output_item.added":
                yield from self._begun(place, as_dict(event.get("item")))
            case "response.output_item.done":
                yield from self._item(place, as_dict(event.get("item")))
            case "response.reasoning_summary_part.added" if self.parts.text(place):
                # Before a second section only: the first one begins the thought.
                yield from self.parts.add(place, "reasoning", BREAK)
            case str(named) if named in ENDS:
                yield from self._over(as_dict(event.get("response")))
            case str(named) if named in DELTAS:
                kind = DELTAS[named]
                # A message may have several texts; a thought or a call is one part by its item alone.
                key = (place, as_int(event.get("content_index"))) if kind in ("text", "refusal") else place
                yield from self.parts.add(key, kind, as_str(event.get("delta")))
            case _:
                # What OpenAI's own tools are doing meanwhile; their items tell of it once they are done.
                pass

    def read_answer(self, answer: Json) -> ModelResponse:
        for _ in self._over(as_dict(answer)):
            pass
        return self.answer()

    def _about(self, response: dict[str, Any]) -> None:
        self.id = as_str(response.get("id")) or self.id
        self.model = as_str(response.get("model")) or self.model

    def _begun(self, place: int, item: dict[str, Any]) -> Iterator[ResponseDelta]:
        if item.get("type") == "function_call":
            id, name = as_str(item.get("call_id")), as_str(item.get("name"))
            yield from self.parts.add(place, "tool_call", id=id, name=name)

    def _item(self, place: int, item: dict[str, Any]) -> Iterator[ResponseDelta]:
        self._done.add(place)
        said = assistant_parts(mended(item), "", "") if item.get("type") else []
        for at, part in enumerate(said):
            key = (place, at) if item.get("type") == "message" else place
            yield from self.parts.put(key, part)

    def _over(self, response: dict[str, Any]) -> Iterator[ResponseDelta]:
        status = as_str(response.get("status"))
        self._about(response)
        self.usage = _with_verdict(
            usage(response.get("usage")),
            as_dict(response.get("prompt_cache_diagnostics")),
        )
        if response.get("error") or status in ("failed", "cancelled"):
            unsaid = {"code": "server_error", "message": f"status: {status}"}
            raise self.failure(response.get("error") or unsaid)
        # An item that was not streamed to its end is only here.
        for place, item in enumerate(as_list(response.get("output"))):
            if place not in self._done:
                yield from self._item(place, as_dict(item))
        reason = as_dict(response.get("incomplete_details")).get("reason")
        self.finish_reason = as_str(reason) or status or "completed"


def _with_verdict(counted: Usage | None, diagnostics: dict[str, Any]) -> Usage | None:
    if counted is None or not diagnostics:
        return counted
    verdict = as_str(diagnostics.get("reason")) or as_str(diagnostics.get("type"))
    missed = as_int(diagnostics.get("cache_missed_tokens"))
    return replace(counted, cache_verdict=verdict, cache_missed=missed)
