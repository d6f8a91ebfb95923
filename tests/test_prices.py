"""What models cost: from the package of prices, from the calls themselves, and what becomes of a limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, Conversation, LlmError, TextPart, ToolCall, ToolResult
from stenolog.adapters.providers.prices import listed
from stenolog.domain.lanes.limits import Limits, delegated_usage, no_price
from stenolog.engine import Agent, AgentTool, Team
from stenolog.errors import CallerError
from stenolog.events import Usage
from stenolog.models import CommandLine, Model, ModelRequest, ModelResponse, ResponseDelta, Scripted
from stenolog.projections.prices import Price, price_of
from stenolog.projections.views.usage import usage
from stenolog.testing import entries


def look() -> str:
    """Look."""
    return "seen"


class Charging(Model):
    """A model that calls `look`, then answers; both with this usage."""

    api = "openai-chat"

    def __init__(self, name: str, used: Usage) -> None:
        self.name = name
        self.used = used
        self.asked = 0

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        self.asked += 1
        call = ToolCall(id="c1", name="look")
        yield ModelResponse(
            (call if self.asked == 1 else TextPart(text="ok"),), model=self.name, usage=self.used
        )


MILLION = Usage(input=1_000_000)


@pytest.fixture
def conversation(tmp_path: Path) -> Any:
    with stenolog.open(tmp_path / "talks.db") as log:
        yield log["x"]


def errors(conversation: Conversation) -> list[str]:
    return [entry.event.message for entry in conversation.entries() if isinstance(entry.event, LlmError)]


def asked(conversation: Conversation, agent: Agent, *messages: str, **given: Any) -> Conversation:
    async def go() -> None:
        async with Team([agent], **given) as team:
            for message in messages:
                async for _ in team.run(conversation, message):
                    pass

    asyncio.run(go())
    return conversation


@pytest.mark.parametrize(
    "model", ["gpt-5.2", "gpt-5-mini-2025-08-07", "claude-opus-4-6", "gemini-2.5-pro", "openai/gpt-5"]
)
def test_current_models_have_a_price_without_a_network(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.socket", None)
    price = price_of(model, listed())

    assert price is not None
    assert 0 < price.cached <= price.input < price.output


def test_a_model_that_the_package_does_not_know_has_none() -> None:
    assert [price_of(name, listed()) for name in ("home-made", "", "scripted")] == [None] * 3


def test_a_price_of_ones_own_goes_before_the_listed_one() -> None:
    mine = Price("gpt-5*", 7.0, 7.0, 7.0)

    assert price_of("gpt-5.2", (mine, *listed())) == mine


def test_a_limit_that_cannot_be_kept_is_refused_before_anything_is_said(
    conversation: Conversation,
) -> None:
    model = Charging("home-made", MILLION)
    agent = Agent("coder", llm=model, limits=Limits(max_cost=0.5))
    with pytest.raises(CallerError, match=r"'coder': max_cost .* home-made: give one with prices= or in"):
        asked(conversation, agent, "Hi")

    assert (conversation.position, model.asked) == (0, 0)
    mine = [Price("home-made", 0.1, 0.1, 0.1)]
    asked(conversation, replace(agent, tools=[look]), "Hi", prices=mine)
    assert (errors(conversation), model.asked) == ([], 2)


def test_the_model_of_a_worker_counts_too(conversation: Conversation) -> None:
    worker = Agent("helper", llm=Charging("home-made", MILLION))
    agent = Agent("coder", llm=Scripted("ok"), tools=[AgentTool(worker)], limits=Limits(max_cost=0.5))
    with pytest.raises(CallerError, match="no price is known for home-made"):
        asked(conversation, agent, "Hi")


@pytest.mark.parametrize(
    "model",
    [Scripted("ok"), Charging("gpt-5.2", Usage(input=1)), CommandLine("claude", format="claude-code")],
    ids=["costs nothing", "has a price", "states its cost"],
)
def test_a_limit_that_can_be_kept_is_no_fault(model: Model, conversation: Conversation) -> None:
    agent = Agent("coder", llm=model, limits=Limits(max_cost=0.5))

    asked(conversation, agent)


def test_a_model_that_states_no_cost_ends_the_lane_after_its_first_answer(conversation: Conversation) -> None:
    model = Charging("claude", MILLION)
    model.charges = "stated"
    asked(conversation, Agent("coder", llm=model, tools=[look], limits=Limits(max_cost=0.5)), "Hi", prices=())

    assert model.asked == 1
    assert [error.partition(":")[::2] for error in errors(conversation)] == [
        ("max_cost", f" {no_price(['claude'])}"),
    ]


def test_what_a_call_states_goes_before_its_model_s_price() -> None:
    stated = Usage(input=1_000_000, cost=250_000)
    said = entries(
        AssistantMessage(agent="a", model="m", usage=stated),
        LlmError(agent="a", model="m", category="timeout", usage=stated),
        AssistantMessage(agent="a", model="m", usage=MILLION),
    )
    prices = [Price("m", 1.0, 1.0, 1.0)]

    assert usage(said).total.cost(prices) == 250_000 + 250_000 + 1_000_000
    assert usage(said).total.sum.input == 3_000_000
    assert usage(said[:2]).total.cost([]) == 500_000
    assert (usage(said).total.cost([]), usage(said).total.known_cost([])) == (None, 500_000)


def test_a_stated_cost_counts_for_the_limit(conversation: Conversation) -> None:
    model = Charging("claude", Usage(input=10, cost=600_000))
    model.charges = "stated"
    asked(conversation, Agent("coder", llm=model, tools=[look], limits=Limits(max_cost=0.5)), "Hi")

    assert model.asked == 1
    assert errors(conversation) == ["max_cost: 0.6000 of 0.5000 USD since the last message"]


def test_tokens_with_a_stated_cost_count_for_the_limit_on_tokens(conversation: Conversation) -> None:
    model = Charging("claude", Usage(input=10, cost=1))
    asked(conversation, Agent("coder", llm=model, tools=[look], limits=Limits(max_tokens=10)), "Hi")

    assert errors(conversation) == ["max_tokens: 10 of 10 tokens since the last message"]


def test_what_a_worker_used_is_told_with_the_cost_that_it_states() -> None:
    child: Any = {"spent": {"m": {"input": 5}}, "billed": {"m": {"input": 7, "cost": 9}}}
    result = ToolResult(call_id="c1", text="ok", meta={"stenolog": {"child": child}})

    assert [*delegated_usage(result)] == [("m", Usage(input=5)), ("m", Usage(input=7, cost=9))]
