"""Scores that a model gives to an agent's answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import stenolog
from stenolog import Agent, AssistantMessage, Conversation, Team, ToolCall
from stenolog.engine import AutoScore, load_team
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
