"""Cohere's models through its SDK.

The bytes of the receipt go to the client beneath the SDK's `chat_stream`, which builds a body of its own from
the types that it knows, and passes over events that it cannot read.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any, ClassVar

from stenolog.adapters.providers.errors import connection_error, redact, reported
from stenolog.domain.errors import ModelError
from stenolog.projections.formats.cohere.stream import CohereStream
from stenolog.projections.formats.cohere.write import NAME
from stenolog.projections.messages.json_fields import Json
from stenolog.projections.requests.transport import Transport

from .base import ModelRequest, Timeouts
from .egress import behaviour
from .http_model import Clients, SdkModel, Sending

if TYPE_CHECKING:
    from cohere import AsyncClientV2
    from httpx2 import Response

PATH = "/v2/chat"


class Cohere(SdkModel):
    """A model at Cohere, or at any server that speaks its Chat API (`base_url`).

    `options` are those of the SDK's client; without an `api_key` it looks for one in the environment.
    """

    provider: ClassVar[str] = NAME
    api = NAME

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - it is frozen
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        with self.importing():
            import cohere
            import httpx2
        super().__init__(name, timeouts)
        self.timeout = httpx2.Timeout(timeout, connect=timeouts.connect)
        if base_url is not None:
            options["base_url"] = base_url
        # Not the SDK's own HTTP client, whose errors would not be told apart.
        ours: Any = lambda: httpx2.AsyncClient(follow_redirects=True)  # noqa: E731
        self.clients = Clients(lambda: cohere.AsyncClientV2(api_key, httpx_client=ours(), **options), _shut)

    def reader(self) -> CohereStream:
        return CohereStream(self.name)

    def keys(self, client: AsyncClientV2) -> Iterable[str | None]:
        return (client._client_wrapper._get_token(),)

    def sending(self, client: AsyncClientV2, prompt: ModelRequest) -> Sending:
        beneath: Any = client._client_wrapper.httpx_client
        headers = {"content-type": "application/json"}
        outgoing = prompt.outgoing(Transport("POST", PATH, {"stream": True}, headers=behaviour(headers)))

        async def opening() -> _Events:
            sent = {"content": outgoing.content, "headers": headers}
            answer = beneath.stream(PATH, method="POST", request_options={"timeout": self.timeout}, **sent)
            return await _Events.opened(answer)

        return Sending(outgoing, beneath.httpx_client, opening)

    @staticmethod
    def failed(error: Exception, secrets: Iterable[str] = ()) -> ModelError:
        from cohere.core.api_error import ApiError

        match error:
            case ModelError():
                return error
            case ApiError(status_code=int(status)):
                return reported(CohereStream().failure(error.body, status), error.headers, secrets)
            # The SDK raises it where a key is neither given nor in the environment.
            case ApiError():
                return ModelError("unauthorized", redact(str(error.body), secrets))
            case _:
                return connection_error(error, secrets)


async def _shut(client: AsyncClientV2) -> None:
    await client._client_wrapper.httpx_client.httpx_client.aclose()


class _Events:
    """The events of an answer, as plain JSON."""

    def __init__(self, response: Response, opened: AsyncExitStack) -> None:
        self.response = response
        self._opened = opened

    @classmethod
    async def opened(cls, answer: AbstractAsyncContextManager[Response]) -> _Events:
        """Return the events of an answer. Raises `ApiError` for one whose status is an error's."""
        from cohere.core.api_error import ApiError

        async with AsyncExitStack() as opened:
            response = await opened.enter_async_context(answer)
            if response.status_code >= 400:
                content = await response.aread()
                headers = dict(response.headers)
                raise ApiError(headers=headers, status_code=response.status_code, body=_body(content))
            return cls(response, opened.pop_all())

    async def __aenter__(self) -> AsyncIterator[Json]:
        return self._read()

    async def __aexit__(self, *_: object) -> None:
        await self._opened.aclose()

    async def _read(self) -> AsyncIterator[Json]:
        async for line in self.response.aiter_lines():
            field, _, data = line.partition(":")
            if field == "data" and (data := data.strip()) != "[DONE]":
                yield json.loads(data)


def _body(content: bytes) -> Json:
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")
