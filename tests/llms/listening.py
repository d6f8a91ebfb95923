"""Asking a model for an agent, in the short words of the tests: what came of it, or how it failed."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from itertools import groupby
from typing import NamedTuple

import pytest

from stenolog import AgentCard, Event, ModeSwitch, Tool, UserMessage
from stenolog.errors import ModelError
from stenolog.models import Model, ModelRequest, ModelResponse, ResponseDelta
from stenolog.requests import build
from tests.requests.given import log

HI = UserMessage(text="Hi")
SHELL = Tool(name="shell", parameters={"type": "object", "properties": {"cmd": {"type": "string"}}})


class Heard(NamedTuple):
    """What streamed, and the answer."""

    said: list[ResponseDelta]
    answer: ModelResponse


def prompt(model: Model, *events: Event, key: str = "effect-1") -> ModelRequest:
    """Return the request of the agent `coder` after these events, as its model's API makes it."""
    card = ModeSwitch(cards={"coder": AgentCard(model=model.name, tools=[SHELL])})
    body = build(log(card, *(events or (HI,))), "coder", api=model.api).body
    return ModelRequest(body, key, "coder", "talk")


def ask(model: Model, *events: Event) -> Heard:
    """Ask in an event loop of its own, and close the model."""
    return asyncio.run(_ask(model, prompt(model, *events)))


def failure(model: Model, *events: Event) -> ModelError:
    """Return the error of the failure."""
    with pytest.raises(ModelError) as raised:
        ask(model, *events)
    return raised.value


async def heard(model: Model, asked: ModelRequest) -> Heard:
    """Ask, and listen to the end."""
    async with aclosing(model.stream(asked)) as pieces:
        *said, answer = [piece async for piece in pieces]
    assert isinstance(answer, ModelResponse)
    return Heard([piece for piece in said if isinstance(piece, ResponseDelta)], answer)


async def _ask(model: Model, asked: ModelRequest) -> Heard:
    try:
        return await heard(model, asked)
    finally:
        await model.close()


def streamed(said: list[ResponseDelta]) -> list[ResponseDelta]:
    """Return the streamed pieces, those of a part joined, in the order of the parts."""
    parts = [
        list(pieces) for _, pieces in groupby(sorted(said, key=lambda each: each.part), lambda s: s.part)
    ]
    return [pieces[0]._replace(text="".join(piece.text for piece in pieces)) for pieces in parts]
