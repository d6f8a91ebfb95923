"""A team on the real SDK is billed over HTTP, and again with the patch that was advised."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import stenolog
from stenolog import ToolCall
from stenolog.analysis import Advice, advise
from stenolog.engine import Agent, AutoSummary, Team
from stenolog.models import Anthropic, ModelResponse
from stenolog.parts import TextPart
from tests.analysis.provider_account import Account, Bill
from tests.llms.server import Received, Reply, Server
from tests.llms.wire_anthropic import frames

MODEL = "claude-sonnet-4-5"
PERSONA = "You bake bread, and weigh what you bake. " * 250


class Billed(NamedTuple):
    """A run: its log, and its bills."""

    log: Sequence[stenolog.Entry]
    bills: Sequence[Bill]

    @property
    def cost(self) -> float:
        return sum(bill.cost for bill in self.bills)


class Provider:
    """Anthropic, for an account: it answers by the number of calls, and bills each."""

    def __init__(self, answers: Callable[[dict[str, Any]], Sequence[Any]]) -> None:
        self.account, self.bills, self.answers = Account(), list[Bill](), answers

    def __call__(self, request: Received) -> Reply:
        bill = self.account.ask(request.body, time.time(), 0.0)
        self.bills.append(bill)
        parts = tuple(self.answers(request.body))
        finish = "tool_use" if any(isinstance(part, ToolCall) for part in parts) else "end_turn"
        return Reply([*frames(ModelResponse(parts, MODEL, finish_reason=finish, usage=bill.usage))])


def run(
    path: Path, agent: Agent, questions: Sequence[str], answers: Callable[[Any], Sequence[Any]]
) -> Billed:
    """Return a conversation with an agent at a provider."""
    provider = Provider(answers)

    async def talk(team: Team, conversation: Any) -> None:
        async with team:
            for question in questions:
                await team.ask(conversation, question)

    with Server(provider) as server, stenolog.open(path) as log:
        model = Anthropic(MODEL, base_url=server.url, api_key="key")
        asyncio.run(talk(Team([replace(agent, llm=model)]), log["day"]))
        return Billed([*log["day"].entries()], provider.bills)


def looks(body: dict[str, Any]) -> Sequence[Any]:
    """Call a tool 25 times at once, four times; then answer."""
    asked = sum(block.get("type") == "tool_use" for message in body["messages"] for block in _blocks(message))
    if asked >= 100:
        return [TextPart(text="Forty loaves.")]
    return [
        ToolCall(id=f"c{asked + n}", name="look", arguments=f'{{"page": {asked + n}}}') for n in range(25)
    ]


def _blocks(message: dict[str, Any]) -> Sequence[dict[str, Any]]:
    content = message["content"]
    return content if isinstance(content, list) else []


def talks(body: dict[str, Any]) -> Sequence[Any]:
    """Answer at length."""
    if "Summarise" in str(body["messages"][-1]):
        return [TextPart(text="They spoke of loaves, salt and rye. " * 8)]
    return [TextPart(text=f"Loaf {len(body['messages'])} is in the oven by the door. " * 40)]


def look(page: int) -> str:
    """Look at a page."""
    return f"page {page}: rye, salt, and forty loaves"


def advised(billed: Billed, words: str) -> tuple[Advice, Any]:
    (found,) = advise([billed.log])
    return found, next(option for option in found.options if option.words.startswith(words))


def test_a_team_with_the_advised_breakpoints_is_billed_what_was_predicted(tmp_path: Path) -> None:
    agent = Agent("baker", persona=PERSONA, tools=[look])
    questions = ["How many loaves?"]
    first = run(tmp_path / "1.db", agent, questions, looks)
    found, _ = advised(first, "")
    assert found.best is not None
    second = run(tmp_path / "2.db", replace(agent, **found.best.patch), questions, looks)

    assert found.simulated == pytest.approx(first.cost, rel=0.05)
    assert found.best.micro_usd == pytest.approx(second.cost, rel=0.05)
    assert second.cost < 0.9 * first.cost
    assert found.best.patch["parameters"]["cache"]["turns"] == 2


@pytest.mark.parametrize("words", ["summarise from", "summarise only"])
def test_a_team_that_summarises_later_is_billed_what_was_predicted(tmp_path: Path, words: str) -> None:
    agent = Agent("baker", persona=PERSONA, summary=AutoSummary(over=4_000, keep=2))
    questions = [f"And loaf {n}?" for n in range(14)]
    first = run(tmp_path / "1.db", agent, questions, talks)
    _, option = advised(first, words)
    later = AutoSummary(**option.patch["summary"])
    second = run(tmp_path / "2.db", replace(agent, summary=later), questions, talks)

    assert first.cost - option.saving == pytest.approx(second.cost, rel=0.05), option
