"""OpenAI Responses, with nothing stored at OpenAI: what has to go back is in the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar

from stenolog.adapters.providers.json_fields import Json, as_dict, as_int, as_list, as_str, compact_json
from stenolog.adapters.providers.openai_items import assistant_parts
from stenolog.domain.errors import ModelError
from stenolog.domain.json_types import clean
from stenolog.domain.values import Usage
from stenolog.projections.requests.wires import openai_responses

from .accumulator import PartAccumulator
from .base import Kind, ModelResponse, ResponseDelta
from .openai_base import OpenAIModel, refusal, usage

DELTAS: dict[str, Kind] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.function_call_arguments.delta": "tool_call",
}
BREAK = "\n\n"
"""The separator of a summary's sections, and so of a thought's paragraphs."""


class OpenAIResponses(OpenAIModel):
    """A model behind `POST /responses`."""

    api = openai_responses.NAME
    path: ClassVar[str] = "/responses"

    def reading(self) -> Events:
        """A reader for the events of one stream."""
        return Events(self.name)


class Events:
    """Makes an answer of the events of one stream.

    A part goes by the place of its item in the output, and within a message by its place there. The item as
    it is when it is done takes the place of what has streamed.
    """

    def __init__(self, model: str) -> None:
        self._parts = PartAccumulator("openai")
        self.model = model
        self._done: set[int] = set()
        self._finish_reason = ""
        self.usage: Usage | None = None

    def read(self, event: Json) -> Iterator[ResponseDelta]:
        """Yield the deltas of an event. Raises `ModelError` if it reports an error."""
        event = as_dict(event)
        place = as_int(event.get("output_index"))
        match event.get("type"):
            case "response.output_item.added":
                yield from self._begun(place, as_dict(event.get("item")))
            case "response.output_item.done":
                yield from self._item(place, as_dict(event.get("item")))
            case "response.reasoning_summary_part.added" if self._parts.text(place):
                yield from self._parts.add(place, "reasoning", BREAK)
            case "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled":
                yield from self._over(as_dict(event.get("response")))
            case "error":
                raise refusal(event)
            case str(named) if named in DELTAS:
                kind = DELTAS[named]
                key = (place, as_int(event.get("content_index"))) if kind in ("text", "refusal") else place
                yield from self._parts.add(key, kind, as_str(event.get("delta")))
            case _:
                pass  # what OpenAI's own tools are doing meanwhile: their items tell of it once they are done

    def answer(self) -> ModelResponse:
        """The whole. Raises `ModelError` where the stream has no end, or says nothing."""
        if not self._finish_reason:
            raise ModelError("invalid_response", "the stream ended before the response was completed")
        return self._parts.answer(self.model, self._finish_reason, self.usage)

    def _begun(self, place: int, item: dict[str, Any]) -> Iterator[ResponseDelta]:
        if item.get("type") == "function_call":
            id, name = as_str(item.get("call_id")), as_str(item.get("name"))
            yield from self._parts.add(place, "tool_call", id=id, name=name)

    def _item(self, place: int, item: dict[str, Any]) -> Iterator[ResponseDelta]:
        self._done.add(place)
        said = assistant_parts(_cleaned(item), "", "") if item.get("type") else []
        for at, part in enumerate(said):
            key = (place, at) if item.get("type") == "message" else place
            yield from self._parts.put(key, part)

    def _over(self, response: dict[str, Any]) -> Iterator[ResponseDelta]:
        """The response as it ended. What is in it and did not stream is taken from it."""
        status = as_str(response.get("status"))
        self.model = as_str(response.get("model")) or self.model
        self.usage = usage(response.get("usage"), "input_tokens", "output_tokens")
        if response.get("error") or status in ("failed", "cancelled"):
            raise refusal(response.get("error") or {"code": "server_error", "message": f"status: {status}"})
        for place, item in enumerate(as_list(response.get("output"))):
            if place not in self._done:
                yield from self._item(place, as_dict(item))
        reason = as_dict(response.get("incomplete_details")).get("reason")
        self._finish_reason = as_str(reason) or status or "completed"


def _cleaned(item: dict[str, Any]) -> dict[str, Any]:
    """The item as it can be written."""
    raw = compact_json(item)
    return item if clean(raw) is raw else as_dict(json.loads(clean(raw)))
