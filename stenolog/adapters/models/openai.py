"""OpenAI's models on Chat Completions, which many servers speak, and on Responses, with nothing stored."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from stenolog.adapters.providers.errors import connection_error, redact, reported, secret_headers
from stenolog.domain.errors import ModelError
from stenolog.projections.formats.openai_chat import write as openai_chat
from stenolog.projections.formats.openai_chat.stream import OpenAIChatStream
from stenolog.projections.formats.openai_responses import write as openai_responses
from stenolog.projections.formats.openai_responses.stream import OpenAIResponsesStream
from stenolog.projections.messages.json_fields import as_dict
from stenolog.projections.requests.transport import Transport

from .base import ModelRequest, Timeouts
from .egress import behaviour
from .http_model import Diagnosis, SdkModel, Sending

if TYPE_CHECKING:
    from openai import AsyncOpenAI


# Servers of one's own ask for no key, but the SDK does.
NO_KEY = "no-key"
"""The key that is given to the SDK if the server needs none."""


class OpenAIModel(SdkModel):
    """A model at OpenAI, or at any server that speaks its API, through the `openai` SDK.

    `base_url` is such a server's; it needs no key if it asks for none. `client` is an `AsyncOpenAI` of your
    own, which stays yours to close; otherwise one is made with `options`.
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
        with self.importing():
            import openai
        super().__init__(name, timeouts, client)
        own_server = base_url or os.environ.get("OPENAI_BASE_URL")
        if own_server and not api_key and not os.environ.get("OPENAI_API_KEY"):
            api_key = NO_KEY
        options = {"api_key": api_key, "base_url": base_url} | options
        self.clients = self.made_by(openai, openai.AsyncOpenAI, options)

    def added(self, prompt: ModelRequest) -> dict[str, Any]:
        """Return the fields that ask for the answer as a stream."""
        return {"stream": True}

    def keys(self, client: AsyncOpenAI) -> Iterable[str | None]:
        return client.api_key, *secret_headers(client._custom_headers)

    def sending(self, client: AsyncOpenAI, prompt: ModelRequest) -> Sending:
        import openai

        headers = behaviour(client.default_headers)
        outgoing = prompt.outgoing(Transport("POST", self.path, self.added(prompt), headers=headers))
        # By this key a provider can tell a call that is sent again from a new one.
        own_headers = {"Idempotency-Key": quote(prompt.key)} if prompt.key else {}
        content: dict[str, Any] = {"content": outgoing.content}
        if type(client)._build_request is not openai.AsyncOpenAI._build_request:
            # Azure's client takes the model for its path out of the body. It writes JSON as we do.
            content = {"body": outgoing.transport.patched(prompt.body)}
        # Plain JSON, so that no field of another server's is lost.
        post = partial(client.post, self.path, cast_to=object, options={"headers": own_headers}, stream=True)
        opening = partial(post, stream_cls=openai.AsyncStream[object], **content)
        return Sending(outgoing, client._client, opening)

    @staticmethod
    def failed(error: Exception, secrets: Iterable[str] = ()) -> ModelError:
        import openai

        match error:
            case ModelError():
                return error
            case openai.APIStatusError():
                failed = OpenAIChatStream().failure(error.body, error.status_code)
                return reported(failed, error.response.headers, secrets)
            case openai.APIConnectionError():
                found = connection_error(error, secrets)
                # The SDK says that the connection failed, so there is no answer that could be a bad one.
                return ModelError("network", found.message) if found.category == "invalid_response" else found
            case openai.APIError():
                return reported(OpenAIChatStream().failure(error.body or error.message), secrets=secrets)
            # No client can be made, for want of a key.
            case openai.OpenAIError():
                return ModelError("unauthorized", redact(str(error), secrets))
            case _:
                return connection_error(error, secrets)


USAGE = "stream_options"


class OpenAIChat(OpenAIModel):
    """A model at `POST /chat/completions`."""

    api = openai_chat.NAME
    path: ClassVar[str] = "/chat/completions"
    _counts = True

    def reader(self) -> OpenAIChatStream:
        return OpenAIChatStream(self.name)

    def added(self, prompt: ModelRequest) -> dict[str, Any]:
        """Return the fields that ask for the answer as a stream, and for the usage at its end."""
        return super().added(prompt) | ({USAGE: {"include_usage": True}} if self._counts else {})

    def does_without(self, error: Exception) -> bool:
        """Return whether the server refuses to report usage."""
        import openai

        refused = isinstance(error, openai.BadRequestError | openai.UnprocessableEntityError)
        if not (self._counts and refused and USAGE in str(getattr(error, "body", ""))):
            return False
        # For all later calls, too: this server would refuse each of them first.
        self._counts = False
        return True


class OpenAIResponses(OpenAIModel):
    """A model at `POST /responses`.

    `diagnose`: each answer has OpenAI's verdict on its cache misses, from GPT-5.6 on.
    """

    api = openai_responses.NAME
    path: ClassVar[str] = "/responses"

    def __init__(self, name: str, *, diagnose: bool = False, **options: Any) -> None:
        super().__init__(name, **options)
        self.diagnosis = Diagnosis() if diagnose else None

    def added(self, prompt: ModelRequest) -> dict[str, Any]:
        """Return the fields that ask for a stream, and for a comparison with the answer before."""
        asked = super().added(prompt)
        before = None if self.diagnosis is None else self.diagnosis.before(prompt)
        if before is None:
            return asked
        options = as_dict(prompt.body.get("prompt_cache_options"))
        return {**asked, "prompt_cache_options": {"comparison_response_id": before, **options}}

    def reader(self) -> OpenAIResponsesStream:
        return OpenAIResponsesStream(self.name)
