"""The APIs of all providers, each with its model and the way a server streams its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from stenolog import ToolCall
from stenolog.errors import ModelError
from stenolog.events import Usage
from stenolog.models import (
    Anthropic,
    Gemini,
    Model,
    ModelRequest,
    ModelResponse,
    OpenAIChat,
    OpenAIResponses,
    Outgoing,
    ResponseDelta,
)
from tests.llms import wire_anthropic, wire_gemini, wire_openai_chat, wire_openai_responses
from tests.llms.listening import heard, prompt
from tests.llms.server import Server

KEY = "sk-test-0123456789abcdef"
WAIT = 20.0
TOKENS = Usage(input=120, output=30, cache_read=100, reasoning=20)
CALLS = (
    ToolCall(id="c1", name="shell", arguments='{"cmd":"ls -l"}'),
    ToolCall(id="c2", name="shell", arguments="{}"),
)


class Api(NamedTuple):
    """A provider's API: its model, and how the server streams an answer, or gives it whole.

    It also has the finish reasons of a complete answer and of one that is withheld.

    `hurried` are the options of an SDK that waits 50 ms.
    """

    model: Callable[..., Model]
    name: str
    frames: Callable[..., Iterator[bytes]]
    whole: Callable[[ModelResponse], dict[str, Any]]
    finish: str
    kept_back: str
    root: str = ""
    hurried: Mapping[str, Any] = {"timeout": 0.05}

    def at(self, server: Server, **options: Any) -> Model:
        """Return the model at the server."""
        return self.model(self.name, base_url=server.url + self.root, **{"api_key": KEY, **options})

    def answer(self, *parts: Any, **fields: Any) -> ModelResponse:
        """Return a whole answer of this API."""
        return ModelResponse(parts, self.name, **{"finish_reason": self.finish, "usage": TOKENS, **fields})


CHAT = Api(
    OpenAIChat, "gpt-5", wire_openai_chat.frames, wire_openai_chat.whole, "stop", "content_filter", root="/v1"
)
RESPONSES = Api(
    OpenAIResponses,
    "gpt-5",
    wire_openai_responses.frames,
    wire_openai_responses.whole,
    "completed",
    "content_filter",
    root="/v1",
)
MESSAGES = Api(Anthropic, "claude-opus-5", wire_anthropic.frames, wire_anthropic.whole, "end_turn", "refusal")
GENERATE = Api(
    Gemini,
    "gemini-3-pro",
    wire_gemini.frames,
    wire_gemini.whole,
    "STOP",
    "SAFETY",
    hurried={"http_options": {"timeout": 50}},
)
OPENAI = {"OpenAIChat": CHAT, "OpenAIResponses": RESPONSES}
APIS = OPENAI | {"Anthropic": MESSAGES, "Gemini": GENERATE}
every = pytest.mark.parametrize("api", APIS.values(), ids=APIS.keys())
both_of_openai = pytest.mark.parametrize("api", OPENAI.values(), ids=OPENAI.keys())


async def closed_after(model: Model, asked: ModelRequest) -> ModelResponse:
    """Return the answer of a model that is closed then."""
    answer = (await heard(model, asked)).answer
    await model.close()
    return answer


async def until_it_fails(model: Model) -> tuple[list[ResponseDelta], ModelError]:
    """Return the deltas that streamed before the failure, and the error."""
    said: list[ResponseDelta] = []
    try:
        async for piece in model.stream(prompt(model)):
            assert not isinstance(piece, ModelResponse), "it answered"
            said += [piece] if isinstance(piece, ResponseDelta) else []
    except ModelError as failed:
        return said, failed
    finally:
        await model.close()
    raise AssertionError("it did not fail")


async def cancelled_when(model: Model, is_so: Callable[[list[Any]], bool]) -> None:
    """Cancel who listens, once it is so of what has been heard."""
    said: list[Any] = []

    async def listen() -> None:
        async for piece in model.stream(prompt(model)):
            said.extend([] if isinstance(piece, Outgoing) else [piece])

    listening = asyncio.create_task(listen())
    while not is_so(said):
        await asyncio.sleep(0.005)
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    await model.close()
