"""The two APIs of OpenAI, each with its model and the way a server streams its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from stenolog import ToolCall, Usage
from stenolog.adapters.llms.openai_chat import OpenAIChat
from stenolog.adapters.llms.openai_responses import OpenAIResponses
from stenolog.adapters.llms.openai_shared import OpenAIModel
from stenolog.adapters.llms.port import Answer, Prompt, Said
from stenolog.domain.errors import ModelFailed
from tests.llms import wire_openai_chat, wire_openai_responses
from tests.llms.listening import heard, prompt
from tests.llms.server import Server

KEY = "sk-test-0123456789abcdef"
WAIT = 20.0
MODEL = "gpt-5"
TOKENS = Usage(input=120, output=30, cache_read=100, reasoning=20)
CALLS = (
    ToolCall(id="c1", name="shell", arguments='{"cmd": "ls -l"}'),
    ToolCall(id="c2", name="shell", arguments="{}"),
)


class Api(NamedTuple):
    """One of the two: its model, how the server streams an answer, and how one that is whole finishes."""

    model: type[OpenAIModel]
    frames: Callable[..., Iterator[bytes]]
    finish: str
    added: frozenset[str]

    def at(self, server: Server, **options: Any) -> OpenAIModel:
        """The model at the server."""
        return self.model(MODEL, base_url=f"{server.url}/v1", **options)

    def answer(self, *parts: Any, **fields: Any) -> Answer:
        """A whole answer of this API."""
        return Answer(parts, MODEL, **{"finish_reason": self.finish, "usage": TOKENS, **fields})


APIS = [
    Api(OpenAIChat, wire_openai_chat.frames, "stop", frozenset({"stream", "stream_options"})),
    Api(OpenAIResponses, wire_openai_responses.frames, "completed", frozenset({"stream"})),
]
both = pytest.mark.parametrize("api", APIS, ids=lambda api: api.model.__name__)


async def closed_after(model: OpenAIModel, asked: Prompt) -> Answer:
    """The answer of a model that is closed then."""
    answer = (await heard(model, asked)).answer
    await model.close()
    return answer


async def until_it_fails(model: OpenAIModel) -> tuple[list[Said], ModelFailed]:
    """What streamed before it failed, and how it did."""
    said: list[Said] = []
    try:
        async for piece in model.stream(prompt(model)):
            assert isinstance(piece, Said), "it answered"
            said.append(piece)
    except ModelFailed as failed:
        return said, failed
    finally:
        await model.close()
    raise AssertionError("it did not fail")
