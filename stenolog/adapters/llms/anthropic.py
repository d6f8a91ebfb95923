"""Anthropic's models through its SDK.

The body goes out as the wire made it, and what comes back is read as raw events: the SDK's own types would
drop what they do not know, and send only what they do.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar

from stenolog.adapters.transcripts.claude.blocks import assistant_part, usage
from stenolog.adapters.transcripts.fields import Json, compact, obj, text, whole
from stenolog.domain.errors import MissingExtra, ModelFailed
from stenolog.projections.requests.model import Body
from stenolog.projections.requests.names import arguments_object

from .clients import Clients
from .collecting import Collecting, clean
from .failing import broken, failed, told
from .port import Answer, Kind, Model, Prompt, Said, Timeouts

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

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


class Anthropic(Model):
    """A model at Anthropic, or at any server of the Messages API (`base_url`).

    `options` are those of the SDK's client, which is made when it is first needed; without an `api_key` it
    looks for one in the environment. A `client` of your own is used as it is, without its retries, and is
    yours to close.
    """

    provider: ClassVar[str] = "anthropic"
    wire = "anthropic"

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - it is frozen
        client: AsyncAnthropic | None = None,
        **options: Any,
    ) -> None:
        try:
            import anthropic
        except ImportError:
            raise MissingExtra("anthropic", "anthropic") from None
        self.name = name
        self.timeouts = timeouts
        self._given = client and client.with_options(max_retries=0)
        timeout = anthropic.Timeout(None, connect=timeouts.connect)
        options = {"api_key": api_key, "base_url": base_url, "timeout": timeout} | options
        self._clients = Clients(lambda: anthropic.AsyncAnthropic(**options, max_retries=0), _shut)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Said | Answer, None]:
        """Pieces of the answer, then the whole. Raises `ModelFailed`."""
        reading = Reading()
        async with aclosing(self._events(prompt.body)) as events:
            async for event in events:
                for said in reading.read(event):
                    yield said
        yield reading.answer()

    async def _events(self, body: Body) -> AsyncGenerator[Json, None]:
        """The events of one stream, as plain JSON. Raises `ModelFailed` for whatever the SDK raises."""
        import anthropic

        key = ""
        try:
            client = self._given or await self._clients.get()
            key = client.api_key or ""
            opened = await client.post(
                "/v1/messages",
                cast_to=object,
                body=body | {"stream": True},
                stream=True,
                stream_cls=anthropic.AsyncStream[object],
            )
            async with opened as events:
                async for event in events:
                    yield event
        except Exception as error:
            raise _failure(error, key) from None

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        await self._clients.close()


async def _shut(client: AsyncAnthropic) -> None:
    await client.close()


def _failure(error: Exception, key: str) -> ModelFailed:
    """What the SDK raises, in the engine's words."""
    import anthropic

    match error:
        case anthropic.APIStatusError():
            inner, headers = obj(obj(error.body).get("error")), error.response.headers
            code, message = text(inner.get("type")), text(inner.get("message")) or text(error.body)
            status = error.status_code if error.status_code >= 400 else STATUS.get(code, 0)
            return failed(status, code, message, headers=headers, secrets=(key,))
        case anthropic.CredentialsError():
            return ModelFailed("unauthorized", told(str(error), (key,)))
        case TypeError() if "authentication" in str(error):  # no key, neither given nor in the environment
            return ModelFailed("unauthorized", told(str(error)))
        case _:
            return broken(error, (key,))


class Reading:
    """What the events of one stream come to."""

    def __init__(self) -> None:
        self._collecting = Collecting(Anthropic.provider)
        self._open: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, list[str]] = {}
        self._usage: dict[str, Any] = {}
        self._model = ""
        self._stopped: dict[str, Any] = {}
        self._begun = self._ended = False

    def read(self, event: Json) -> list[Said]:
        """Take an event in; what of it is to be streamed on. Raises `ModelFailed`."""
        event = obj(event)
        index = whole(event.get("index"))
        match event.get("type"):
            case "message_start":
                message = obj(event.get("message"))
                self._begun, self._model = True, text(message.get("model"))
                self._count(message)
            case "content_block_start":
                return self._start(index, _mended(obj(event.get("content_block"))))
            case "content_block_delta":
                return self._delta(index, obj(event.get("delta")))
            case "content_block_stop" if index in self._open:
                return self._collecting.put(index, self._part(index, self._open.pop(index)))
            case "message_delta":
                self._stopped |= obj(event.get("delta"))
                self._count(event)
            case "message_stop":
                self._ended = True
            case _:
                pass
        return []

    def answer(self) -> Answer:
        """The whole answer. Raises `ModelFailed` where there is none."""
        if self._begun and not self._ended:
            raise ModelFailed(
                "invalid_response", "expected message_stop at the end of the stream, found none"
            )
        reason = text(self._stopped.get("stop_reason"))
        try:
            return self._collecting.answer(self._model, reason, usage(self._usage or None))
        except ModelFailed as nothing:
            why = text(obj(self._stopped.get("stop_details")).get("explanation"))
            raise ModelFailed(nothing.category, told(why) or nothing.message) from None

    def _start(self, index: int, block: dict[str, Any]) -> list[Said]:
        self._open[index] = block
        if block.get("type") not in BEGINS:
            return []
        kind, where = BEGINS[block["type"]]
        names = {"id": _id(block, index), "name": text(block.get("name"))} if kind == "tool_call" else {}
        return self._collecting.add(index, kind, text(block.get(where)), **names)

    def _delta(self, index: int, delta: dict[str, Any]) -> list[Said]:
        if index not in self._open:
            raise ModelFailed("invalid_response", f"a delta of block {index}, which is not open")
        block, kind = self._open[index], text(delta.get("type"))
        if kind == "input_json_delta" and block.get("type") != "tool_use":
            self._inputs.setdefault(index, []).append(text(delta.get("partial_json")))
        elif kind in STREAMED:
            streamed, where = STREAMED[kind]
            return self._collecting.add(index, streamed, text(delta.get(where)))
        elif kind != "citations_delta":  # a text of ours has none
            block |= _mended({name: value for name, value in delta.items() if name != "type"})
        return []

    def _part(self, index: int, block: dict[str, Any]) -> Any:
        """The part that a whole block is."""
        streamed = self._collecting.text(index)
        match block.get("type"):
            case "text":
                block["text"] = streamed
            case "thinking":
                block["thinking"] = streamed
            case "tool_use" if streamed:
                block["input"] = streamed
            case _ if index in self._inputs:
                block["input"] = arguments_object(clean("".join(self._inputs[index])))[0]
            case _:
                pass
        return assistant_part(block, clean(self._model), _id(block, index))

    def _count(self, of: dict[str, Any]) -> None:
        counted = obj(of.get("usage"))
        self._usage |= {name: value for name, value in counted.items() if value is not None}


def _id(block: dict[str, Any], index: int) -> str:
    return text(block.get("id")) or f"call_{index}"


def _mended(block: dict[str, Any]) -> dict[str, Any]:
    """The block with no halves of surrogate pairs in it."""
    written = compact(block)
    whole_text = clean(written)
    return block if whole_text is written else obj(json.loads(whole_text))
