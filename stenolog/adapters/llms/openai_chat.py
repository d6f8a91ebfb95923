"""OpenAI Chat Completions, and every server that speaks it: Ollama, vLLM, llama.cpp, gateways."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from stenolog.adapters.transcripts.fields import Json, arguments, items, obj, text
from stenolog.domain.errors import ModelFailed
from stenolog.domain.values import Usage
from stenolog.projections.requests.model import Body
from stenolog.projections.requests.wires import openai_chat

from .collecting import Collecting
from .openai_shared import OpenAIModel, refusal, usage
from .port import Answer, Prompt, Said

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream

USAGE = "stream_options"


class OpenAIChat(OpenAIModel):
    """A model behind `POST /chat/completions`."""

    wire = openai_chat.NAME
    path: ClassVar[str] = "/chat/completions"
    _counts = True

    def reading(self) -> Chunks:
        """A reader for the chunks of one stream."""
        return Chunks(self.name)

    def sent(self, body: Body) -> Body:
        """The body with what asks for it as a stream, and for the usage at its end."""
        return super().sent(body) | ({USAGE: {"include_usage": True}} if self._counts else {})

    async def _opened(self, client: AsyncOpenAI, prompt: Prompt) -> AsyncStream[object]:
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
        self._parts = Collecting("openai")
        self._calls: list[_Call] = []
        self._known: dict[int | str, _Call] = {}
        self.model = model
        self._finish_reason = ""
        self.usage: Usage | None = None

    def read(self, event: Json) -> Iterator[Said]:
        """What a chunk adds to the answer. Raises `ModelFailed` where it tells of an error."""
        chunk = obj(event)
        self.model = text(chunk.get("model")) or self.model
        self.usage = usage(chunk.get("usage"), "prompt_tokens", "completion_tokens") or self.usage
        for choice in map(obj, items(chunk.get("choices"))):
            if not choice.get("index"):  # others are asked for by nobody
                yield from self._choice(choice)

    def answer(self) -> Answer:
        """The whole. Raises `ModelFailed` where the stream has no end, or says nothing."""
        if not self._finish_reason:
            raise ModelFailed("invalid_response", "the stream ended without a finish reason")
        return self._parts.answer(self.model, self._finish_reason, self.usage)

    def _choice(self, choice: dict[str, Any]) -> Iterator[Said]:
        delta = obj(choice.get("delta"))
        thought = text(delta.get("reasoning_content")) or text(delta.get("reasoning"))
        yield from self._parts.add("reasoning", "reasoning", thought)
        yield from self._content(delta.get("content"))
        yield from self._parts.add("refusal", "refusal", text(delta.get("refusal")))
        for call in map(obj, items(delta.get("tool_calls"))):
            yield from self._call(call)
        self._finish_reason = text(choice.get("finish_reason")) or self._finish_reason
        if self._finish_reason == "error":
            raise refusal(choice.get("error") or {"code": "server_error", "message": "finish reason: error"})

    def _content(self, content: Json) -> Iterator[Said]:
        """A text; from Mistral's models that reason a list of texts and thoughts."""
        yield from self._parts.add("text", "text", text(content))
        for part in map(obj, items(content)):
            yield from self._parts.add("text", "text", text(part.get("text")))
            for thought in map(obj, items(part.get("thinking"))):
                yield from self._parts.add("reasoning", "reasoning", text(thought.get("text")))

    def _call(self, given: dict[str, Any]) -> Iterator[Said]:
        """More of a call. A server may send it whole or in pieces, with an index or without, and with an id
        that is empty, that every piece has, or that other calls have too."""
        function = obj(given.get("function"))
        id, name = text(given.get("id")), text(function.get("name"))
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
        """Whether a piece begins a call of its own, though it goes by the index or the id of one before."""
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
