"""Scores that a model gives to an agent's answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import stenolog
from stenolog import Agent, AssistantMessage, Conversation, Team, ToolCall
from stenolog.context import Budget, Pins
from stenolog.engine import AutoScore, AutoSummary, load_team, regenerate
from stenolog.models import ModelRequest, Scripted


def scores(conversation: Conversation) -> list[tuple[int | None, object]]:
    """Return what was scored, by position, and its score."""
    said = [entry.event for entry in conversation.entries() if isinstance(entry.event, AssistantMessage)]
    return [(each.cause, each.meta["score"]) for each in said if "score" in each.meta]


def talk(team: Team, conversation: Conversation, *texts: str) -> None:
    """Say something, and let the team answer each time."""

    async def main() -> None:
        async with team:
            for text in texts or (None,):
                async for _ in team.run(conversation, text):
                    pass

    asyncio.run(main())


def look() -> str:
    """Look."""
    return "24 loaves"


def test_each_answer_is_scored_by_a_model_once_and_no_agent_is_shown_the_score(tmp_path: Path) -> None:
    asked: list[str] = []

    def judged(call: ModelRequest) -> str:
        asked.append(str(call.body["messages"]))
        return f'Well: {{"score": 0.{len(asked)}, "lacks": []}}'

    call = ToolCall(id="c1", name="look", arguments="{}")
    judge = Agent("judge", llm=Scripted(judged, endless=True))
    writer = Agent("writer", Scripted(call, "24.", "Rye."), tools=[look], score=AutoScore(by=judge))
    with stenolog.open(tmp_path / "t.db") as log:
        talk(Team([writer]), log["talk"], "How many?", "Which?")
        talk(Team([writer]), log["talk"])

        answers = [e.position for e in log["talk"].entries() if e.event.kind == "assistant_message"]
        assert scores(log["talk"]) == [
            (answers[1], {"score": 0.1, "lacks": []}), (answers[3], {"score": 0.2, "lacks": []}),
        ]  # fmt: skip
        assert "24." in asked[0]
        assert "0.1" not in str(log["talk"].request("writer").body)


def test_a_team_file_names_who_scores(tmp_path: Path) -> None:
    (tmp_path / "team.toml").write_text(
        '[agents.writer]\nmodel = "cli:echo Rye."\nscore = "judge"\n'
        '[helpers.judge]\nmodel = "cli:echo Fine."\n'
    )
    with stenolog.open(tmp_path / "t.db") as log:
        talk(load_team(tmp_path / "team.toml").team, log["talk"], "Which?")

        assert [score for _, score in scores(log["talk"])] == [{"text": "Fine."}]


# Tags that an agent gives its answers, by which a policy keeps some of them.


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
