"""Base of both OpenAI models: the SDK's client, one streamed call, and the translation of its errors."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from stenolog.adapters.providers.errors import connection_error, provider_error, redact, secret_headers
from stenolog.adapters.providers.json_fields import Json, as_dict, as_int, as_str
from stenolog.domain.errors import MissingExtraError, ModelError
from stenolog.domain.values import Usage
from stenolog.projections.requests.request import Body

from .base import ModelCall, Timeouts
from .clients import Clients
from .http_model import HttpModel

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream

NO_KEY = "no-key"
"""Servers of one's own ask for no key, but the SDK does."""


class OpenAIModel(HttpModel):
    """A model at OpenAI, or at any server that speaks its API, through the `openai` SDK.

    `base_url` is such a server's; it needs no key where it asks for none. `client` is an `AsyncOpenAI` of
    your own, which stays yours to close; otherwise `options` go to the one that is made.
    """

    provider: ClassVar[str] = "openai"
    path: ClassVar[str]

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - it is frozen
        client: AsyncOpenAI | None = None,
        **options: Any,
    ) -> None:
        try:
            import openai
        except ImportError:
            raise MissingExtraError("openai", "openai") from None
        self.name = name
        self.timeouts = timeouts
        self._given = client and client.with_options(max_retries=0)
        own_server = base_url or os.environ.get("OPENAI_BASE_URL")
        if own_server and not api_key and not os.environ.get("OPENAI_API_KEY"):
            api_key = NO_KEY
        timeout = openai.Timeout(None, connect=timeouts.connect)
        options = {"api_key": api_key, "base_url": base_url, "timeout": timeout} | options
        self._clients = Clients(lambda: openai.AsyncOpenAI(**options, max_retries=0), _shut)

    def sent(self, body: Body) -> Body:
        """The body with what asks for it as a stream."""
        return body | {"stream": True}

    async def _events(self, prompt: ModelCall, secrets: list[str]) -> AsyncGenerator[Json, None]:
        event: Any = None
        try:
            client = self._given or await self._clients.get()
            secrets += [client.api_key, *secret_headers(client._custom_headers)]
            async with await self._opened(client, prompt) as events:
                async for event in events:
                    yield event
        except Exception as error:
            raise sdk_error(error, secrets) from None
        if event is None:
            found = events.response.headers.get("content-type", "nothing")
            what = f"expected a stream of events, found none in {found:.100}"
            raise ModelError("invalid_response", what)

    async def _opened(self, client: AsyncOpenAI, prompt: ModelCall) -> AsyncStream[object]:
        """The stream of events as plain JSON: so no field of another server's is lost, and the body goes out
        in the order that it has."""
        import openai

        headers = {"Idempotency-Key": quote(prompt.key)} if prompt.key else {}
        return await client.post(
            self.path,
            cast_to=object,
            body=self.sent(prompt.body),
            options={"headers": headers},
            stream=True,
            stream_cls=openai.AsyncStream[object],
        )


async def _shut(client: AsyncOpenAI) -> None:
    await client.close()


def sdk_error(error: Exception, secrets: Iterable[str] = ()) -> ModelError:
    """Translate an exception of the SDK to the engine's error."""
    import openai

    match error:
        case openai.APIStatusError():
            return refusal(error.body, error.status_code, error.response.headers, secrets)
        case openai.APIConnectionError():
            found = connection_error(error, secrets)
            return ModelError("network", found.message) if found.category == "invalid_response" else found
        case openai.APIError():
            return refusal(error.body or error.message, secrets=secrets)
        case openai.OpenAIError():  # no client can be made, for want of a key
            return ModelError("unauthorized", redact(str(error), secrets))
        case _:
            return connection_error(error, secrets)


def refusal(
    body: Json, status: int = 0, headers: Mapping[str, str] | None = None, secrets: Iterable[str] = ()
) -> ModelError:
    """An error that the provider itself tells of, in the forms that servers have for it."""
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
    """The tokens used, by an API's names for those that went in and out; None where it tells of none."""
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
