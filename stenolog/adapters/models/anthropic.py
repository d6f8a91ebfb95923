"""Anthropic's models through its SDK, and the assembly of its stream into the parts of an answer."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from stenolog.adapters.providers.errors import connection_error, redact, reported, secret_headers
from stenolog.domain.errors import ModelError
from stenolog.projections.formats.anthropic.stream import AnthropicStream
from stenolog.projections.formats.anthropic.write import NAME
from stenolog.projections.requests.transport import Transport

from .base import ModelRequest, Timeouts
from .egress import behaviour
from .http_model import Diagnosis, SdkModel, Sending

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


PATH = "/v1/messages"


class Anthropic(SdkModel):
    """A model at Anthropic, or at any server of the Messages API (`base_url`).

    `options` are those of the SDK's client, made at its first use; without an `api_key` it looks for one in
    the environment. A `client` of your own is used as it is, without its retries, and is yours to close.
    `diagnose`: each answer has Anthropic's verdict on its cache misses.
    """

    provider: ClassVar[str] = AnthropicStream.provider
    api = NAME

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
        with self.importing():
            import anthropic
        super().__init__(name, timeouts, client)
        self.diagnosis = Diagnosis() if diagnose else None
        options = {"api_key": api_key, "base_url": base_url} | options
        self.clients = self.made_by(anthropic, anthropic.AsyncAnthropic, options)

    def reader(self) -> AnthropicStream:
        return AnthropicStream()

    def keys(self, client: AsyncAnthropic) -> Iterable[str | None]:
        return client.api_key, client.auth_token, *secret_headers(client._custom_headers)

    def sending(self, client: AsyncAnthropic, prompt: ModelRequest) -> Sending:
        import anthropic

        added = {"stream": True, **self._comparison(prompt)}
        transport = Transport("POST", PATH, added, headers=behaviour(client.default_headers))
        outgoing = prompt.outgoing(transport)
        # Not `messages.create`, and as raw events: the SDK's own types would drop what they do not know.
        post = partial(client.post, PATH, cast_to=object, content=outgoing.content, stream=True)
        return Sending(outgoing, client._client, partial(post, stream_cls=anthropic.AsyncStream[object]))

    def _comparison(self, prompt: ModelRequest) -> dict[str, Any]:
        """Return the field that has the request compared; without an earlier answer, it begins that."""
        if self.diagnosis is None or "diagnostics" in prompt.body:
            return {}
        return {"diagnostics": {"previous_message_id": self.diagnosis.before(prompt)}}

    @staticmethod
    def failed(error: Exception, secrets: Iterable[str] = ()) -> ModelError:
        import anthropic

        match error:
            case ModelError():
                return error
            case anthropic.APIStatusError():
                # An error in mid-stream comes in a response whose status is 200.
                status = error.status_code if error.status_code >= 400 else 0
                return reported(
                    AnthropicStream().failure(error.body, status), error.response.headers, secrets
                )
            case anthropic.CredentialsError():
                return ModelError("unauthorized", redact(str(error), secrets))
            # The SDK raises it where a key is neither given nor in the environment.
            case TypeError() if "authentication" in str(error):
                return ModelError("unauthorized", redact(str(error)))
            case _:
                return connection_error(error, secrets)
