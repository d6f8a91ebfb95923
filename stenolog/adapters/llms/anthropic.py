"""Anthropic's models through its SDK, and the assembly of its stream into the parts of an answer."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from stenolog.adapters.providers.errors import connection_error, provider_error, redact, secret_headers
from stenolog.domain.errors import MissingExtraError, ModelError
from stenolog.domain.model import clean
from stenolog.domain.parts import AssistantPart
from stenolog.domain.values import Usage
from stenolog.projections.formats.accumulator import PartAccumulator
from stenolog.projections.formats.anthropic.read import PROVIDER, assistant_part, usage
from stenolog.projections.formats.streaming import Kind, ModelResponse, ResponseDelta
from stenolog.projections.messages.identifiers import arguments_object
from stenolog.projections.messages.json_fields import Json, as_dict, as_int, as_list, as_str, compact_json
from stenolog.projections.requests.transport import Outgoing, Transport

from .base import ModelRequest, Timeouts
from .egress import behaviour, unchanged
from .http_model import Clients, Diagnosis, HttpModel

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


PATH = "/v1/messages"
STATUS: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "timeout_error": 408,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "overloaded_error": 529,
}
"""The status that an error in mid-stream would have had at the start."""


class Anthropic(HttpModel):
    """A model at Anthropic, or at any server of the Messages API (`base_url`).

    `options` are those of the SDK's client, which is made when it is first needed; without an `api_key` it
    looks for one in the environment. A `client` of your own is used as it is, without its retries, and is
    yours to close. `diagnose`: each answer has Anthropic's verdict on what it did not find in its cache.
    """

    provider: ClassVar[str] = "anthropic"
    api = "anthropic"

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - it is frozen
        client: AsyncAnthropic | None = None,
        diagnose: bool = False,
        **options: Any,
    ) -> None:
        try:
            import anthropic
        except ImportError:
            raise MissingExtraError("anthropic", "anthropic") from None
        self.name = name
        self.timeouts = timeouts
        self.diagnosis = Diagnosis() if diagnose else None
        # The engine retries, and notes each attempt; the SDK would do so unseen.
        self._given = client and client.with_options(max_retries=0)
        # All other timeouts are the engine's, which knows when the first token came.
        timeout = anthropic.Timeout(None, connect=timeouts.connect)
        options = {"api_key": api_key, "base_url": base_url, "timeout": timeout} | options
        self.clients = Clients(lambda: anthropic.AsyncAnthropic(**options, max_retries=0), _shut)

    def reader(self) -> AnthropicEvents:
        """Return a reader for the events of one stream."""
        return AnthropicEvents()

    async def events(self, prompt: ModelRequest, secrets: list[str]) -> AsyncGenerator[Outgoing | Json, None]:
        import anthropic

        try:
            client = self._given or await self.clients.get()
            # Noted before anything is sent, so that no error shows them.
            secrets += filter(None, (client.api_key, client.auth_token))
            secrets += secret_headers(client._custom_headers)
            headers = behaviour(client.default_headers)
            added = {"stream": True, **self._comparison(prompt)}
            outgoing = prompt.outgoing(Transport("POST", PATH, added, headers=headers))
            yield outgoing
            with unchanged(client._client, outgoing):
                # Not `messages.create`: the SDK's own types send only what they know.
                opened = await client.post(
                    PATH,
                    cast_to=object,
                    content=outgoing.content,
                    stream=True,
                    # Read as raw events: the SDK's own types would drop what they do not know.
                    stream_cls=anthropic.AsyncStream[object],
                )
            async with opened as events:
                async for event in events:
                    yield event
        except Exception as error:
            raise sdk_error(error, secrets) from None

    def _comparison(self, prompt: ModelRequest) -> dict[str, Any]:
        """Return the field that has the request compared; without an answer before, it begins that."""
        if self.diagnosis is None or "diagnostics" in prompt.body:
            return {}
        return {"diagnostics": {"previous_message_id": self.diagnosis.before(prompt)}}


async def _shut(client: AsyncAnthropic) -> None:
    await client.close()


def sdk_error(error: Exception, secrets: Iterable[str] = ()) -> ModelError:
    """Return the `ModelError` for an exception of the SDK."""
    import anthropic

    match error:
        case ModelError():
            return error
        case anthropic.APIStatusError():
            inner, headers = as_dict(as_dict(error.body).get("error")), error.response.headers
            code, message = as_str(inner.get("type")), as_str(inner.get("message")) or as_str(error.body)
            # An error in mid-stream comes in a response whose status is 200.
            status = error.status_code if error.status_code >= 400 else STATUS.get(code, 0)
            return provider_error(status, code, message, headers=headers, secrets=secrets)
        case anthropic.CredentialsError():
            return ModelError("unauthorized", redact(str(error), secrets))
        # The SDK raises it where a key is neither given nor in the environment.
        case TypeError() if "authentication" in str(error):
            return ModelError("unauthorized", redact(str(error)))
        case _:
            return connection_error(error, secrets)


STREAMED: Mapping[str, tuple[Kind, str]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("reasoning", "thinking"),
    "input_json_delta": ("tool_call", "partial_json"),
}
"""The deltas that are streamed on: of what kind they are, and where they have their text."""
BEGINS: Mapping[str, tuple[Kind, str]] = {
    "text": ("text", "text"),
    "thinking": ("reasoning", "thinking"),
    "tool_use": ("tool_call", ""),
}
"""The blocks that are streamed on, likewise."""


class AnthropicEvents:
    """Answer that the events of one stream add up to."""

    def __init__(self) -> None:
        self._collecting = PartAccumulator(PROVIDER)
        self._open: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, list[str]] = {}
        self._counts: dict[str, Any] = {}
        self._diagnostics: Json = None
        self.usage: Usage | None = None
        self.model = ""
        self._stopped: dict[str, Any] = {}
        self._begun = self._ended = False

    def read(self, event: Json) -> list[ResponseDelta]:
        """Read an event, and return the deltas to stream. Raises `ModelError`."""
        event = as_dict(event)
        index = as_int(event.get("index"))
        match event.get("type"):
            case "message_start":
                message = as_dict(event.get("message"))
                self._begun, self.model = True, as_str(message.get("model"))
                self._count(message)
            case "content_block_start":
                return self._start(index, _mended(as_dict(event.get("content_block"))))
            case "content_block_delta":
                return self._delta(index, as_dict(event.get("delta")))
            case "content_block_stop" if index in self._open:
                return self._collecting.put(index, self._part(index, self._open.pop(index)))
            case "message_delta":
                self._stopped |= as_dict(event.get("delta"))
                self._count(event)
            case "message_stop":
                self._ended = True
            case _:
                pass
        return []

    def answer(self) -> ModelResponse:
        """Return the whole answer. Raises `ModelError` where there is none."""
        # A stream that is cut off looks like a short answer otherwise.
        if self._begun and not self._ended:
            raise ModelError("invalid_response", "expected message_stop at the end of the stream, found none")
        reason = as_str(self._stopped.get("stop_reason"))
        try:
            return self._collecting.answer(self.model, reason, self.usage)
        except ModelError as nothing:
            # Of a refusal the provider may say why, which is worth more than "nothing in it".
            why = as_str(as_dict(self._stopped.get("stop_details")).get("explanation"))
            raise ModelError(nothing.category, redact(why) or nothing.message) from None

    def read_answer(self, message: Json) -> ModelResponse:
        """Return the answer of a message that did not stream. Raises `ModelError` where there is none."""
        given = as_dict(message)
        self.read({"type": "message_start", "message": given})
        for index, block in enumerate(as_list(given.get("content"))):
            self.read({"type": "content_block_start", "index": index, "content_block": {**as_dict(block)}})
            self.read({"type": "content_block_stop", "index": index})
        self.read({"type": "message_delta", "delta": given})
        self.read({"type": "message_stop"})
        return self.answer()

    def _start(self, index: int, block: dict[str, Any]) -> list[ResponseDelta]:
        self._open[index] = block
        if as_str(block.get("type")) not in BEGINS:
            return []
        kind, where = BEGINS[block["type"]]
        names = {"id": _id(block, index), "name": as_str(block.get("name"))} if kind == "tool_call" else {}
        return self._collecting.add(index, kind, as_str(block.get(where)), **names)

    def _delta(self, index: int, delta: dict[str, Any]) -> list[ResponseDelta]:
        if index not in self._open:
            raise ModelError("invalid_response", f"a delta of block {index}, which is not open")
        block, kind = self._open[index], as_str(delta.get("type"))
        # A call of the provider's own tools: its input streams too, but no call is to be run here.
        if kind == "input_json_delta" and block.get("type") != "tool_use":
            self._inputs.setdefault(index, []).append(as_str(delta.get("partial_json")))
        elif kind in STREAMED:
            streamed, where = STREAMED[kind]
            return self._collecting.add(index, streamed, as_str(delta.get(where)))
        elif kind == "citations_delta":
            cited = _mended(as_dict(delta.get("citation")))
            block["citations"] = [*as_list(block.get("citations")), cited]
        # Other deltas, such as a signature, are fields of the block.
        else:
            block |= _mended({name: value for name, value in delta.items() if name != "type"})
        return []

    def _part(self, index: int, block: dict[str, Any]) -> AssistantPart:
        """Return the part that a whole block is."""
        streamed = self._collecting.text(index)
        match block.get("type"):
            case "text":
                block["text"] = streamed
            case "thinking":
                block["thinking"] = streamed
            # Without a delta, the input is what the block began with.
            case "tool_use" if streamed:
                block["input"] = streamed
            case _ if index in self._inputs:
                block["input"] = arguments_object(clean("".join(self._inputs[index])))[0]
            case _:
                pass
        return assistant_part(block, clean(self.model), _id(block, index))

    def _count(self, of: dict[str, Any]) -> None:
        """Merge the counts of an event."""
        counted = as_dict(of.get("usage"))
        # Later events repeat only some of the counts, and have null for others.
        self._counts |= {name: value for name, value in counted.items() if value is not None}
        self._diagnostics = of.get("diagnostics") or self._diagnostics
        self.usage = usage(self._counts or None, self._diagnostics)


def _id(block: dict[str, Any], index: int) -> str:
    # A call needs an id by which its result can name it.
    return as_str(block.get("id")) or f"call_{index}"


def _mended(block: dict[str, Any]) -> dict[str, Any]:
    """Return the block with no halves of surrogate pairs in it."""
    written = compact_json(block)
    # `clean` gives the same object back where there is nothing to mend, and parsing again is saved.
    whole_text = clean(written)
    return block if whole_text is written else as_dict(json.loads(whole_text))
