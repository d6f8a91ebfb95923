"""Anthropic's models through its SDK.

The body goes out as the API made it, and what comes back is read as raw events: the SDK's own types would
drop what they do not know, and send only what they do.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from stenolog.adapters.providers.errors import connection_error, provider_error, redact, secret_headers
from stenolog.adapters.providers.json_fields import Json, as_dict, as_str
from stenolog.domain.errors import MissingExtraError, ModelError

from .anthropic_events import AnthropicEvents
from .base import ModelCall, Timeouts
from .clients import Clients
from .http_model import HttpModel

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


class Anthropic(HttpModel):
    """A model at Anthropic, or at any server of the Messages API (`base_url`).

    `options` are those of the SDK's client, which is made when it is first needed; without an `api_key` it
    looks for one in the environment. A `client` of your own is used as it is, without its retries, and is
    yours to close.
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
        **options: Any,
    ) -> None:
        try:
            import anthropic
        except ImportError:
            raise MissingExtraError("anthropic", "anthropic") from None
        self.name = name
        self.timeouts = timeouts
        self._given = client and client.with_options(max_retries=0)
        timeout = anthropic.Timeout(None, connect=timeouts.connect)
        options = {"api_key": api_key, "base_url": base_url, "timeout": timeout} | options
        self._clients = Clients(lambda: anthropic.AsyncAnthropic(**options, max_retries=0), _shut)

    def reading(self) -> AnthropicEvents:
        """Return a reader for the events of one stream."""
        return AnthropicEvents()

    async def _events(self, prompt: ModelCall, secrets: list[str]) -> AsyncGenerator[Json, None]:
        import anthropic

        try:
            client = self._given or await self._clients.get()
            secrets += filter(None, (client.api_key, client.auth_token))
            secrets += secret_headers(client._custom_headers)
            opened = await client.post(
                "/v1/messages",
                cast_to=object,
                body=prompt.body | {"stream": True},
                stream=True,
                stream_cls=anthropic.AsyncStream[object],
            )
            async with opened as events:
                async for event in events:
                    yield event
        except Exception as error:
            raise _failure(error, secrets) from None


async def _shut(client: AsyncAnthropic) -> None:
    await client.close()


def _failure(error: Exception, secrets: list[str]) -> ModelError:
    """Return the `ModelError` for an exception of the SDK."""
    import anthropic

    match error:
        case anthropic.APIStatusError():
            inner, headers = as_dict(as_dict(error.body).get("error")), error.response.headers
            code, message = as_str(inner.get("type")), as_str(inner.get("message")) or as_str(error.body)
            status = error.status_code if error.status_code >= 400 else STATUS.get(code, 0)
            return provider_error(status, code, message, headers=headers, secrets=secrets)
        case anthropic.CredentialsError():
            return ModelError("unauthorized", redact(str(error), secrets))
        case TypeError() if "authentication" in str(error):  # no key, neither given nor in the environment
            return ModelError("unauthorized", redact(str(error)))
        case _:
            return connection_error(error, secrets)
