"""Tags that an agent gives its answers, by which a policy keeps some of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import pytest

import stenolog
from stenolog import Agent, AssistantMessage, Conversation, Team
from stenolog.context import Budget, Pins
from stenolog.engine import AutoSummary, regenerate
from stenolog.models import ModelRequest, Scripted

ANALYSIS = "Company: Acme. Stakeholders: Ann Ito."


def analysis(answer: AssistantMessage) -> Iterable[str]:
    return ["analysis"] if "Stakeholders:" in answer.text else []


def answers(conversation: Conversation) -> list[AssistantMessage]:
    return [entry.event for entry in conversation if isinstance(entry.event, AssistantMessage)]


def test_an_answer_has_the_tags_that_its_agent_gives_it_and_so_has_one_made_anew() -> None:
    agent = Agent("orchestrator", llm=Scripted(ANALYSIS, "You are welcome.", ANALYSIS), tags=analysis)
    with stenolog.open(":memory:") as log:
        team, conversation = Team([agent]), log["7"]
        for words in ("The report.", "Thanks."):
            team.ask_sync(conversation, words)
        asyncio.run(regenerate(conversation, 5, agent, "The analysis again."))

        tags = [answer.tags for answer in answers(conversation)]
    assert tags == [("analysis",), (), ("analysis",)]


def fails(answer: AssistantMessage) -> list[str]:
    raise ValueError("no words")


def one(answer: AssistantMessage) -> str:
    return "analysis"


@pytest.mark.parametrize(
    ("tags", "why"),
    [(fails, "ValueError('no words')"), (one, "expected several in a list")],
)
def test_tags_that_fail_lose_no_answer(tags: Callable[[AssistantMessage], Iterable[str]], why: str) -> None:
    agent = Agent("writer", llm=Scripted("Dear Ann"), tags=tags)
    with stenolog.open(":memory:") as log:
        assert Team([agent]).ask_sync(log["mail"], "Write.") == "Dear Ann"
        (answer,) = answers(log["mail"])

    assert answer.tags == ()
    assert why in str(answer.meta["stenolog"])


def test_however_many_questions_follow_the_analysis_stays_and_none_is_refused() -> None:
    sent = list[str]()

    def reply(prompt: ModelRequest) -> str:
        sent.append(str(prompt.body["messages"]))
        return ANALYSIS if len(sent) == 1 else "At length: " + "word " * 400

    model = Scripted(reply, endless=True)
    orchestrator = Agent(
        "orchestrator",
        llm=model,
        policy=Pins(authors=["system"], tags=["report", "analysis"]) | Budget(tokens=6_000),
        summary=AutoSummary(by=Agent("summariser", llm=model)),
        tags=analysis,
    )
    with stenolog.open(":memory:") as log:
        team = Team([orchestrator])
        for number in range(25):
            assert team.ask_sync(log["7"], f"Question {number}?")

    assert ANALYSIS in sent[-1]
