"""Google's models through its SDK, and the assembly of its stream into the parts of an answer.

The bytes of the receipt go to the client beneath the SDK's `generate_content_stream`, which gives back each
chunk as JSON.

Each chunk has some parts: a text that goes on, or a whole call. A signature stays at the part that it came
with: it becomes a `ReasoningPart` directly before it, with the thought that led to it if there was one. A
text goes on with the next, unless that is signed itself.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from stenolog.adapters.providers.errors import connection_error, provider_error, redact, secret_headers
from stenolog.domain.errors import MissingExtraError, ModelError
from stenolog.domain.model import clean
from stenolog.domain.parts import ProviderPart, ReasoningPart, ToolCall
from stenolog.domain.values import Usage
from stenolog.projections.formats.accumulator import PartAccumulator
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
from stenolog.projections.requests.transport import Outgoing, Transport

from .base import ModelRequest, Timeouts
from .egress import behaviour, unchanged
from .http_model import Clients, HttpModel

if TYPE_CHECKING:
    from google.genai import Client
    from google.genai._api_client import HttpResponse
    from google.genai.errors import APIError
    from google.genai.types import HttpOptions
    from httpx2 import Request


SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


class Gemini(HttpModel):
    """A model of Google's, at the Gemini API, or at any server that speaks it (`base_url`).

    `client` is a `genai.Client` of your own, which stays yours to close; otherwise `options` go to the one
    that is made. Without an `api_key` the SDK looks for one in the environment.
    """

    provider: ClassVar[str] = "gemini"
    api = "gemini"

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - it is frozen
        client: Client | None = None,
        **options: Any,
    ) -> None:
        try:
            from google import genai
        except ImportError:
            raise MissingExtraError("gemini", "google-genai") from None
        self.name = name
        self.timeouts = timeouts
        self._given = client
        own = genai.types.HttpOptions.model_validate(options.pop("http_options", None) or {})
        http = own.model_copy(update={"base_url": base_url or own.base_url})
        self.clients = Clients(lambda: _sdk_client(http, timeouts.connect, api_key=api_key, **options), _shut)

    def reader(self) -> GeminiChunks:
        """Return a reader for the chunks of one stream."""
        return GeminiChunks(self.name)

    async def events(self, prompt: ModelRequest, secrets: list[str]) -> AsyncGenerator[Outgoing | Json, None]:
        from google.genai.errors import APIError
        from google.genai.types import HttpOptions, HttpRetryOptions

        # The engine retries, and notes each attempt; the SDK would do so unseen.
        once = HttpOptions(retry_options=HttpRetryOptions(attempts=1))
        try:
            client = self._given or await self.clients.get()
            # `generate_content_stream` builds a body of its own from the types that it knows, and reads the
            # answer into them. What a later API has is dropped, and signatures come out in another alphabet.
            # It may also send a second request by itself.
            beneath = client._api_client
            secrets += filter(None, (beneath.api_key,))
            secrets += secret_headers(beneath._http_options.headers or {})
            model = _model_path(str(prompt.body["model"]), bool(client.vertexai))
            path = f"{model}:streamGenerateContent?alt=sse"
            content = {name: value for name, value in prompt.body.items() if name != "model"}
            # A client's options may have an `extra_body`, which the SDK merges into what it is given.
            merged = deepcopy(content) if beneath._http_options.extra_body else dict(content)
            request = beneath._build_request("post", path, merged, once)
            # What the SDK has merged in is part of the bytes, so the receipt has to tell of it.
            added = {name: value for name, value in merged.items() if content.get(name) != value}
            transport = Transport("POST", path, added, ("model",), headers=behaviour(request.headers))
            outgoing = prompt.outgoing(transport)
            request.data = outgoing.content
            yield outgoing
            with unchanged(beneath._async_httpx_client, outgoing):
                opened = await beneath._async_request(request, once, stream=True)
            async with _closing(opened) as chunks:
                async for chunk in chunks:
                    # An error in mid-stream comes as a chunk, under the status 200.
                    if "error" in as_dict(chunk):
                        raise APIError(0, chunk)
                    yield chunk
        except Exception as error:
            raise sdk_error(error, secrets) from None


def _model_path(model: str, vertexai: bool) -> str:
    """Return a model's path in the URL; a name with a slash is used as it is."""
    if "/" in model:
        return model
    return f"publishers/google/models/{model}" if vertexai else f"models/{model}"


def _sdk_client(http: HttpOptions, connect: float | None, **options: Any) -> Client:
    """Return the SDK's client over an HTTP client of ours."""
    from google import genai
    from httpx2 import AsyncClient

    async def patiently(request: Request) -> None:
        request.extensions.setdefault("timeout", {})["connect"] = connect

    # The SDK's own client has no timeout for connecting alone. With aiohttp installed it uses another client,
    # which retries by itself.
    ours = AsyncClient(follow_redirects=True, event_hooks={"request": [patiently]})
    return genai.Client(http_options=http.model_copy(update={"httpx_async_client": ours}), **options)


@asynccontextmanager
async def _closing(response: HttpResponse) -> AsyncIterator[HttpResponse]:
    """Open the chunks of a response, and give its connection back."""
    opened: Any = response.response_stream
    if hasattr(opened, "aiter_bytes"):
        opened.aiter_bytes = partial(_without_comments, opened.aiter_bytes)
    try:
        yield response
    finally:
        # The SDK gives the connection back only for a response that is read to its end.
        # A client of the caller's own may be one of aiohttp, which has `close` alone.
        await opened.aclose() if hasattr(opened, "aclose") else opened.close()


async def _without_comments(stream: Callable[[], AsyncIterator[bytes]]) -> AsyncIterator[bytes]:
    """Yield the bytes of an event stream without its comments."""
    # Gateways send comments to keep the stream open; the SDK takes them for JSON.
    begins, skips = True, False
    async for piece in stream():
        kept = []
        for line in piece.splitlines(keepends=True):
            # A piece may end within a line, so what is skipped is remembered to its end.
            skips = line.startswith(b":") if begins else skips
            begins = line.endswith((b"\n", b"\r"))
            if not skips:
                kept.append(line)
        if kept:
            yield b"".join(kept)


async def _shut(client: Client) -> None:
    ours = client._api_client._async_httpx_client
    client.close()
    if ours is not None:
        await ours.aclose()


def sdk_error(error: Exception, secrets: Iterable[str] = ()) -> ModelError:
    """Return the `ModelError` for an exception of the SDK."""
    from google.genai.errors import APIError

    match error:
        case ModelError():
            return error
        case APIError():
            return _refusal(error, secrets)
        # The SDK raises it where a key is neither given nor in the environment.
        case ValueError() if "API key" in str(error):
            return ModelError("unauthorized", redact(str(error), secrets))
        case _:
            return connection_error(error, secrets)


def _refusal(error: APIError, secrets: Iterable[str]) -> ModelError:
    """Return an error that Google reports."""
    inner = as_dict(as_dict(error.details).get("error"))
    details = [as_dict(detail) for detail in as_list(inner.get("details"))]
    reasons = [as_str(detail.get("reason")) for detail in details]
    wait = next((_seconds(detail) for detail in details if "retryDelay" in detail), None)
    status = error.code if isinstance(error.code, int) else 0
    headers = getattr(error.response, "headers", {})
    code = " ".join([as_str(error.status), *reasons])
    message = as_str(error.message).strip() or as_str(as_dict(error.details).get("error"))
    refused = provider_error(status, code, message, headers=headers, secrets=secrets)
    # Google answers a wrong key with 400, as though the request were at fault.
    if "API_KEY_INVALID" in reasons:
        refused.category = "unauthorized"
    # Google says the same of a limit, whether waiting or money would help. Only where waiting helps does it
    # name a time to wait.
    elif wait is not None:
        refused.category = "rate_limited" if status == 429 else refused.category
        refused.retry_after = wait
    return refused


def _seconds(detail: dict[str, Any]) -> float | None:
    found = SECONDS.fullmatch(as_str(detail["retryDelay"]))
    return float(found[1]) if found else None


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
        """Read a chunk, and return the deltas to stream. Raises `ModelError`."""
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
        """Return the whole answer. Raises `ModelError` where there is none."""
        # A stream that is cut off looks like a short answer otherwise.
        if self._begun and not self._finish_reason:
            raise ModelError("invalid_response", "expected a finishReason in the stream, found none")
        try:
            return self._collecting.answer(self.model, self._finish_reason, self.usage)
        except ModelError as nothing:
            raise ModelError(nothing.category, redact(f"{nothing.message} {self._why}")) from None

    def read_answer(self, response: Json) -> ModelResponse:
        """Return the answer of a response that did not stream. Raises `ModelError` where there is none."""
        self.read(response)
        return self.answer()

    def _count(self, counted: dict[str, Any]) -> None:
        """Merge the counts of a chunk."""
        # A chunk repeats only some of the counts.
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
        """Return more of the last text or thought, or of a new one."""
        last, key = self._growing
        return self._collecting.add(key if last == kind else self._next(kind), kind, said)

    def _sign(self, signature: str) -> list[ResponseDelta]:
        """Put a signature before the part that comes next, on the thought that came last if there is one."""
        last, key = self._growing
        # A signature belongs to the thought that came last, if no other part came since.
        key = key if last == "reasoning" else self._next("reasoning")
        thought = ReasoningPart(text=self._collecting.text(key), provider=PROVIDER, signature=signature)
        # Signed: what comes next must not be added to it.
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
        """Return a call, with an id of its own."""
        # Gemini gives calls no ids as a rule, and a result has to name its call.
        free = (f"call_{n}" for n in range(1, len(self._ids) + 2))
        id = clean(as_str(called.get("id"))) or next(id for id in free if id not in self._ids)
        self._ids.add(id)
        name, given = clean(as_str(called.get("name"))), clean(arguments(called.get("args")))
        return ToolCall(id=id, name=name, arguments=given)


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
