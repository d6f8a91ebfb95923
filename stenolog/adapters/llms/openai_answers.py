"""Answers of OpenAI's two APIs, as a stream of chunks or events adds up to them, and as a whole."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stenolog.adapters.providers.errors import provider_error
from stenolog.domain.errors import ModelError
from stenolog.domain.model import clean
from stenolog.domain.values import Usage
from stenolog.projections.formats.accumulator import PartAccumulator
from stenolog.projections.formats.openai_chat.read import tool_call
from stenolog.projections.formats.openai_responses.read import assistant_parts
from stenolog.projections.formats.streaming import Kind, ModelResponse, ResponseDelta
from stenolog.projections.messages.json_fields import (
    Json,
    arguments,
    as_dict,
    as_int,
    as_list,
    as_str,
    compact_json,
)


def refusal(
    body: Json, status: int = 0, headers: Mapping[str, str] | None = None, secrets: Iterable[str] = ()
) -> ModelError:
    """Return an error that the provider itself tells of, in the forms that servers have for it."""
    match body:
        case {"error": dict() | str() as inner}:
            return refusal(inner, status, headers, secrets)
        case dict():
            code = " ".join(str(body[field]) for field in ("code", "type") if body.get(field))
            message = as_str(body.get("message")) or as_str(body.get("detail"))
            return provider_error(status, code, message, headers=headers, secrets=secrets)
        case _:
            return provider_error(status, "", as_str(body), headers=headers, secrets=secrets)


def usage(given: Json, input: str, output: str) -> Usage | None:
    """Return the tokens used, by an API's names for input and output; None if it reports none."""
    if not as_dict(given):
        return None
    details, thought = as_dict(given.get(f"{input}_details")), as_dict(given.get(f"{output}_details"))
    return Usage(
        input=as_int(given.get(input)),
        output=as_int(given.get(output)),
        cache_read=as_int(details.get("cached_tokens")),
        cache_write=as_int(details.get("cache_write_tokens")),
        reasoning=as_int(thought.get("reasoning_tokens")),
    )


@dataclass
class _ChatCall:
    """A tool call as its server names it, and the key that it is collected under."""

    key: int
    id: str
    name: str


class ChatChunks:
    """Makes an answer of the chunks of one stream."""

    def __init__(self, model: str) -> None:
        self._parts = PartAccumulator("openai")
        self._calls: list[_ChatCall] = []
        self._known: dict[int | str, _ChatCall] = {}
        self.model = model
        self._finish_reason = ""
        self.usage: Usage | None = None

    def read(self, event: Json) -> Iterator[ResponseDelta]:
        """Yield the deltas of a chunk. Raises `ModelError` if it reports an error."""
        chunk = as_dict(event)
        self.model = as_str(chunk.get("model")) or self.model
        # The count comes in the last chunk, which may have no choice.
        self.usage = usage(chunk.get("usage"), "prompt_tokens", "completion_tokens") or self.usage
        for choice in map(as_dict, as_list(chunk.get("choices"))):
            # Further choices are not asked for, and would run into the first one.
            if not choice.get("index"):
                yield from self._choice(choice)

    def answer(self) -> ModelResponse:
        """Return the whole. Raises `ModelError` where the stream has no end, or says nothing."""
        # A stream that is cut off looks like a short answer otherwise.
        if not self._finish_reason:
            raise ModelError("invalid_response", "the stream ended without a finish reason")
        return self._parts.answer(self.model, self._finish_reason, self.usage)

    def read_answer(self, completion: Json) -> ModelResponse:
        """Return the answer of a completion that did not stream. Raises `ModelError` where there is none."""
        given = as_dict(completion)
        choice = as_dict(next(iter(as_list(given.get("choices"))), None))
        if given.get("error") and not choice:
            raise refusal(given)
        message = as_dict(choice.get("message"))
        said = {name: value for name, value in message.items() if name != "tool_calls"}
        deque(self.read({**given, "choices": [{**choice, "index": 0, "delta": said}]}), maxlen=0)
        calls = [*as_list(message.get("tool_calls"))]
        # Older servers name their one call so.
        if message.get("function_call"):
            calls.append({"function": message["function_call"]})
        for nth, call in enumerate(calls):
            deque(self._parts.put(("call", nth), tool_call(call, f"call_{nth}")), maxlen=0)
        return self._parts.answer(self.model, self._finish_reason, self.usage)

    def _choice(self, choice: dict[str, Any]) -> Iterator[ResponseDelta]:
        delta = as_dict(choice.get("delta"))
        # OpenAI streams no thoughts here; other servers use either of these names.
        thought = as_str(delta.get("reasoning_content")) or as_str(delta.get("reasoning"))
        yield from self._parts.add("reasoning", "reasoning", thought)
        yield from self._content(delta.get("content"))
        yield from self._parts.add("refusal", "refusal", as_str(delta.get("refusal")))
        for call in map(as_dict, as_list(delta.get("tool_calls"))):
            yield from self._call(call)
        self._finish_reason = as_str(choice.get("finish_reason")) or self._finish_reason
        # Some gateways report an error of the provider behind them in a choice.
        if self._finish_reason == "error":
            raise refusal(choice.get("error") or {"code": "server_error", "message": "finish reason: error"})

    def _content(self, content: Json) -> Iterator[ResponseDelta]:
        """Yield a text, or the texts and thoughts of a list."""
        # Mistral's models that reason send such a list.
        yield from self._parts.add("text", "text", as_str(content))
        for part in map(as_dict, as_list(content)):
            yield from self._parts.add("text", "text", as_str(part.get("text")))
            for thought in map(as_dict, as_list(part.get("thinking"))):
                yield from self._parts.add("reasoning", "reasoning", as_str(thought.get("text")))

    def _call(self, given: dict[str, Any]) -> Iterator[ResponseDelta]:
        """Read another piece of a call."""
        # Servers send a call whole or in pieces. An index may be missing; an id may be empty or not unique.
        function = as_dict(given.get("function"))
        id, name = as_str(given.get("id")), as_str(function.get("name"))
        more = arguments(function.get("arguments") or "")
        index = given.get("index")
        call = self._meant(index, id)
        if call is None or self._is_another(call, id, name, more):
            call = _ChatCall(len(self._calls), id, name)
            self._calls.append(call)
        call.id, call.name = call.id or id, call.name or name
        self._known |= {call.id: call} | ({index: call} if isinstance(index, int) else {})
        yield from self._parts.add(call.key, "tool_call", more, id=id, name=name)

    def _meant(self, index: object, id: str) -> _ChatCall | None:
        """Return the call that goes by the index, else by the id, else the last."""
        if isinstance(index, int):
            return self._known.get(index)
        return self._known.get(id) if id else self._calls[-1] if self._calls else None

    def _is_another(self, call: _ChatCall, id: str, name: str, more: str) -> bool:
        """Return whether a piece begins another call, though an earlier one has its index or id."""
        # Later pieces have no name as a rule; another name is another call.
        if not name or (call.name and name != call.name):
            return bool(name)
        so_far = self._parts.text(call.key)
        # A new id is not enough: vLLM drew a new one for every piece.
        new_id = bool(id and call.id and id != call.id)
        # Once the arguments are a whole object, whatever follows belongs to another call.
        return (new_id or bool(more.strip())) if _is_object(so_far) else new_id and not so_far


def _is_object(arguments: str) -> bool:
    try:
        return arguments.rstrip().endswith("}") and isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False


DELTAS: dict[str, Kind] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.function_call_arguments.delta": "tool_call",
}
BREAK = "\n\n"
"""The separator of a summary's sections, and so of a thought's paragraphs."""


class ResponsesEvents:
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
                # Before a second section only: the first one begins the thought.
                yield from self._parts.add(place, "reasoning", BREAK)
            case "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled":
                yield from self._over(as_dict(event.get("response")))
            case "error":
                raise refusal(event)
            case str(named) if named in DELTAS:
                kind = DELTAS[named]
                # A message may have several texts; a thought or a call is one part by its item alone.
                key = (place, as_int(event.get("content_index"))) if kind in ("text", "refusal") else place
                yield from self._parts.add(key, kind, as_str(event.get("delta")))
            case _:
                # What OpenAI's own tools are doing meanwhile; their items tell of it once they are done.
                pass

    def answer(self) -> ModelResponse:
        """Return the whole. Raises `ModelError` where the stream has no end, or says nothing."""
        if not self._finish_reason:
            raise ModelError("invalid_response", "the stream ended before the response was completed")
        return self._parts.answer(self.model, self._finish_reason, self.usage)

    def read_answer(self, response: Json) -> ModelResponse:
        """Return the answer of a response that did not stream. Raises `ModelError` where there is none."""
        deque(self._over(as_dict(response)), maxlen=0)
        return self.answer()

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
        """Yield the response as it ended. What is in it and did not stream is taken from it."""
        status = as_str(response.get("status"))
        self.model = as_str(response.get("model")) or self.model
        self.usage = _with_verdict(
            usage(response.get("usage"), "input_tokens", "output_tokens"),
            as_dict(response.get("prompt_cache_diagnostics")),
        )
        if response.get("error") or status in ("failed", "cancelled"):
            raise refusal(response.get("error") or {"code": "server_error", "message": f"status: {status}"})
        # An item that was not streamed to its end is only here.
        for place, item in enumerate(as_list(response.get("output"))):
            if place not in self._done:
                yield from self._item(place, as_dict(item))
        reason = as_dict(response.get("incomplete_details")).get("reason")
        self._finish_reason = as_str(reason) or status or "completed"


def _with_verdict(counted: Usage | None, diagnostics: dict[str, Any]) -> Usage | None:
    """Return the tokens with OpenAI's verdict on its cache: the reason of a miss, or what it says instead."""
    if counted is None or not diagnostics:
        return counted
    verdict = as_str(diagnostics.get("reason")) or as_str(diagnostics.get("type"))
    missed = as_int(diagnostics.get("cache_missed_tokens"))
    return replace(counted, cache_verdict=verdict, cache_missed=missed)


def _cleaned(item: dict[str, Any]) -> dict[str, Any]:
    """Return the item as it can be written."""
    raw = compact_json(item)
    return item if clean(raw) is raw else as_dict(json.loads(clean(raw)))
