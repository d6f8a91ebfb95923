"""Google's models through its SDK.

The bytes of the receipt go to the client below the SDK's `generate_content_stream`, which returns each chunk
as JSON.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from stenolog.adapters.providers.errors import connection_error, redact, reported, secret_headers
from stenolog.domain.errors import ModelError
from stenolog.projections.formats.gemini.stream import GeminiStream
from stenolog.projections.formats.gemini.write import NAME
from stenolog.projections.requests.transport import Transport

from .base import ModelRequest, Timeouts
from .egress import behaviour
from .http_model import Clients, SdkModel, Sending

if TYPE_CHECKING:
    from google.genai import Client
    from google.genai._api_client import HttpResponse
    from google.genai.types import HttpOptions
    from httpx2 import Request


class Gemini(SdkModel):
    """A model of Google's, at the Gemini API, or at any server that speaks it (`base_url`).

    `client` is a `genai.Client` of your own, which stays yours to close; otherwise one is made with
    `options`. Without an `api_key` the SDK looks for one in the environment.
    """

    provider: ClassVar[str] = GeminiStream.provider
    api = NAME

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
        with self.importing():
            from google import genai
        super().__init__(name, timeouts, client)
        own = genai.types.HttpOptions.model_validate(options.pop("http_options", None) or {})
        http = own.model_copy(update={"base_url": base_url or own.base_url})
        self.clients = Clients(lambda: _sdk_client(http, timeouts.connect, api_key=api_key, **options), _shut)

    def reader(self) -> GeminiStream:
        return GeminiStream(self.name)

    def keys(self, client: Client) -> Iterable[str | None]:
        beneath = client._api_client
        return beneath.api_key, *secret_headers(beneath._http_options.headers or {})

    def sending(self, client: Client, prompt: ModelRequest) -> Sending:
        from google.genai.types import HttpOptions, HttpRetryOptions

        # The engine retries, and notes each attempt; the SDK would do so unseen.
        once = HttpOptions(retry_options=HttpRetryOptions(attempts=1))
        # `generate_content_stream` builds a body of its own from the types that it knows, and reads the
        # answer into them. What a later API has is dropped, and signatures come out in another alphabet.
        # It may also send a second request by itself.
        beneath = client._api_client
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

        async def opening() -> Any:
            return _closing(await beneath._async_request(request, once, stream=True))

        return Sending(outgoing, beneath._async_httpx_client, opening)

    @staticmethod
    def failed(error: Exception, secrets: Iterable[str] = ()) -> ModelError:
        from google.genai.errors import APIError

        match error:
            case ModelError():
                return error
            case APIError():
                status = error.code if isinstance(error.code, int) else 0
                headers = getattr(error.response, "headers", {})
                return reported(GeminiStream().failure(error.details, status), headers, secrets)
            # The SDK raises it where a key is neither given nor in the environment.
            case ValueError() if "API key" in str(error):
                return ModelError("unauthorized", redact(str(error), secrets))
            case _:
                return connection_error(error, secrets)


def _model_path(model: str, vertexai: bool) -> str:
    """Return a model's path in the URL; a name with a slash is used as it is."""
    if "/" in model:
        return model
    return f"publishers/google/models/{model}" if vertexai else f"models/{model}"


def _sdk_client(http: HttpOptions, connect: float | None, **options: Any) -> Client:
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
