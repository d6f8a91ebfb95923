"""The APIs of all formats with a stream, and what is asked of their models."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from stenolog import ToolCall
from stenolog.errors import ModelError
from stenolog.models import (
    Model,
    ModelRequest,
    ModelResponse,
    Outgoing,
    ResponseDelta,
)
from stenolog.requests import FORMATS
from tests.llms.api import Api
from tests.llms.listening import heard, prompt

WAIT = 20.0


CALLS = (
    ToolCall(id="c1", name="shell", arguments='{"cmd":"ls -l"}'),
    ToolCall(id="c2", name="shell", arguments="{}"),
)


APIS: dict[str, Api] = {
    name: import_module(f"tests.llms.wire_{name.replace('-', '_')}").API
    for name, format in FORMATS.items()
    if format.stream
}
CHAT, RESPONSES = APIS["openai-chat"], APIS["openai-responses"]
MESSAGES, GENERATE = APIS["anthropic"], APIS["gemini"]
OPENAI = {"OpenAIChat": CHAT, "OpenAIResponses": RESPONSES}
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
