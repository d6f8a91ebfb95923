"""OpenAI Chat Completions, and every server that speaks it: Ollama, vLLM, llama.cpp, gateways."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from stenolog.adapters.providers.json_fields import Json, arguments, as_dict, as_list, as_str
from stenolog.domain.errors import ModelError
from stenolog.domain.values import Usage
from stenolog.projections.requests.request import Body
from stenolog.projections.requests.wires import openai_chat

from .accumulator import PartAccumulator
from .base import ModelCall, ModelResponse, ResponseDelta
from .openai_base import OpenAIModel, refusal, usage

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream

USAGE = "stream_options"


class OpenAIChat(OpenAIModel):
    """A model behind `POST /chat/completions`."""

    api = openai_chat.NAME
    path: ClassVar[str] = "/chat/completions"
    _counts = True

    def reading(self) -> Chunks:
        """A reader for the chunks of one stream."""
        return Chunks(self.name)

    def sent(self, body: Body) -> Body:
        """The body with what asks for it as a stream, and for the usage at its end."""
        return super().sent(body) | ({USAGE: {"include_usage": True}} if self._counts else {})

    async def _opened(self, client: AsyncOpenAI, prompt: ModelCall) -> AsyncStream[object]:
        """The stream; a server that does not know how to be asked for the usage is asked again without."""
        import openai

        try:
            return await super()._opened(client, prompt)
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            if USAGE not in str(error.body):
                raise
            self._counts = False
        return await super()._opened(client, prompt)


@dataclass
class _Call:
    """A tool call as its server names it, and the key that it is collected under."""

    key: int
    id: str
    name: str


class Chunks:
    """Makes an answer of the chunks of one stream."""

    def __init__(self, model: str) -> None:
        self._parts = PartAccumulator("openai")
        self._calls: list[_Call] = []
        self._known: dict[int | str, _Call] = {}
        self.model = model
        self._finish_reason = ""
        self.usage: Usage | None = None

    def read(self, event: Json) -> Iterator[ResponseDelta]:
        """Yield the deltas of a chunk. Raises `ModelError` if it reports an error."""
        chunk = as_dict(event)
        self.model = as_str(chunk.get("model")) or self.model
        self.usage = usage(chunk.get("usage"), "prompt_tokens", "completion_tokens") or self.usage
        for choice in map(as_dict, as_list(chunk.get("choices"))):
            if not choice.get("index"):  # others are asked for by nobody
                yield from self._choice(choice)

    def answer(self) -> ModelResponse:
        """The whole. Raises `ModelError` where the stream has no end, or says nothing."""
        if not self._finish_reason:
            raise ModelError("invalid_response", "the stream ended without a finish reason")
        return self._parts.answer(self.model, self._finish_reason, self.usage)

    def _choice(self, choice: dict[str, Any]) -> Iterator[ResponseDelta]:
        delta = as_dict(choice.get("delta"))
        thought = as_str(delta.get("reasoning_content")) or as_str(delta.get("reasoning"))
        yield from self._parts.add("reasoning", "reasoning", thought)
        yield from self._content(delta.get("content"))
        yield from self._parts.add("refusal", "refusal", as_str(delta.get("refusal")))
        for call in map(as_dict, as_list(delta.get("tool_calls"))):
            yield from self._call(call)
        self._finish_reason = as_str(choice.get("finish_reason")) or self._finish_reason
        if self._finish_reason == "error":
            raise refusal(choice.get("error") or {"code": "server_error", "message": "finish reason: error"})

    def _content(self, content: Json) -> Iterator[ResponseDelta]:
        """A text; from Mistral's models that reason a list of texts and thoughts."""
        yield from self._parts.add("text", "text", as_str(content))
        for part in map(as_dict, as_list(content)):
            yield from self._parts.add("text", "text", as_str(part.get("text")))
            for thought in map(as_dict, as_list(part.get("thinking"))):
                yield from self._parts.add("reasoning", "reasoning", as_str(thought.get("text")))

    def _call(self, given: dict[str, Any]) -> Iterator[ResponseDelta]:
        """More of a call. A server may send it whole or in pieces, with an index or without, and with an id
        that is empty, that every piece has, or that other calls have too."""
        function = as_dict(given.get("function"))
        id, name = as_str(given.get("id")), as_str(function.get("name"))
        more = arguments(function.get("arguments") or "")
        index = given.get("index")
        call = self._meant(index, id)
        if call is None or self._is_another(call, id, name, more):
            call = _Call(len(self._calls), id, name)
            self._calls.append(call)
        call.id, call.name = call.id or id, call.name or name
        self._known |= {call.id: call} | ({index: call} if isinstance(index, int) else {})
        yield from self._parts.add(call.key, "tool_call", more, id=id, name=name)

    def _meant(self, index: object, id: str) -> _Call | None:
        """The call that goes by the index, else by the id, else the last."""
        if isinstance(index, int):
            return self._known.get(index)
        return self._known.get(id) if id else self._calls[-1] if self._calls else None

    def _is_another(self, call: _Call, id: str, name: str, more: str) -> bool:
        """Return whether a piece begins another call, though an earlier one has its index or id."""
        if not name or (call.name and name != call.name):
            return bool(name)
        so_far = self._parts.text(call.key)
        new_id = bool(id and call.id and id != call.id)  # not enough: vLLM drew a new one for every piece
        return (new_id or bool(more.strip())) if _is_object(so_far) else new_id and not so_far


def _is_object(arguments: str) -> bool:
    try:
        return arguments.rstrip().endswith("}") and isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False
