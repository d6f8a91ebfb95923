"""Summaries in a team: each is for its lane, covers what its writer was sent, takes nothing from others."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from stenolog import Agent, AssistantMessage, ModeSwitch, Team
from stenolog.context import Budget, FullHistory, SummaryAndRecent
from stenolog.engine import AutoMemory, AutoSummary, compact
from stenolog.models import Scripted
from tests.engine.given import opened, run, run_team
from tests.engine.test_auto_context import coder, kept, scribe, talk


def sees_all(name: str, **given: Any) -> Agent:
    return Agent(name, llm=Scripted("Yes.", endless=True), **given)


def test_an_agent_with_full_history_is_sent_all_however_others_summarise(tmp_path: Path) -> None:
    team = Team([coder(policy=SummaryAndRecent(4), summary=AutoSummary(by=scribe())), sees_all("reviewer")])
    with opened(tmp_path / "t.db") as conversation:
        for n in range(5):
            run(run_team(team, conversation, f"Question {n}", to=["coder", "reviewer"]))
        request = conversation.request("reviewer")

    assert [f"Question {n}" in str(request.body) for n in range(5)] == [True] * 5
    assert {run.rule for run in request.omissions} == {"private-purpose"}


def test_the_memories_that_an_agent_keeps_stay_beside_its_own_summary(tmp_path: Path) -> None:
    policy, memory = SummaryAndRecent(4), AutoMemory(by=scribe("Ada is the user."), every=1)
    agent = coder(policy=policy, summary=AutoSummary(by=scribe()), memory=memory)
    with opened(tmp_path / "t.db") as conversation:
        talk(conversation, Team([agent]), 8)
        facts = [e.position for e in conversation.entries() if getattr(e.event, "purpose", "") == "memory"]

        covered = [span for made in kept(conversation, "summary") for span in made.covers]
        assert covered
        assert facts
        assert [fact for fact in facts for span in covered if fact in span] == []


def test_each_lane_of_an_agent_is_summarised_by_what_it_was_sent(tmp_path: Path) -> None:
    agent = coder(policy=SummaryAndRecent(2), summary=AutoSummary(by=scribe()))
    team = Team([agent])
    with opened(tmp_path / "t.db") as conversation:
        conversation.append(ModeSwitch(joins=["coder"], scope="addressed"))
        for to, text in (("1", "Brief 1"), ("2", "Brief 2"), *(("1", f"Again {n}") for n in range(4))):
            run(run_team(team, conversation, text, to=[f"coder/{to}"]))
        request = conversation.request("coder", task="2", policy=FullHistory())

        assert {made.task for made in kept(conversation, "summary")} == {"1"}
        assert "Brief 2" in str(request.body)
        assert "covered" not in {run.rule for run in request.omissions}


def test_a_summary_that_others_made_for_an_agent_is_told_of_as_a_cut_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path / "t.db") as conversation, caplog.at_level(logging.WARNING):
        talk(conversation, Team([coder(), sees_all("reviewer")]), 3)
        made = run(compact(conversation, "coder", scribe(), over=1, keep=2, to=["reviewer"]))
        talk(conversation, Team([sees_all("reviewer")]), 1)
        hidden = [run.rule for run in conversation.request("reviewer").omissions]

    assert made is not None
    assert isinstance(made.event, AssistantMessage)
    assert made.event.to == ("reviewer",)
    assert "covered" in hidden
    assert f"reviewer is not shown 2-7: the summary at {made.position} is in its place" in caplog.text


def test_a_summary_does_not_cover_what_the_budget_of_its_writer_cut(tmp_path: Path) -> None:
    poor = Agent("scribe", llm=Scripted("Short.", endless=True), policy=Budget(tokens=300))
    with opened(tmp_path / "t.db") as conversation:
        for n in range(6):
            run(run_team(Team([coder()]), conversation, f"Question {n} " + "why " * 60))
        made = run(compact(conversation, "coder", poor, over=1, keep=2))

        assert made is not None
        assert isinstance(made.event, AssistantMessage)
        first = made.event.covers[0].first
        assert first > 2
        assert "Question 0" in str(conversation.request("coder").body)


def test_a_summariser_is_told_what_its_last_summary_for_the_lane_said_and_reads_on_from_there(
    tmp_path: Path,
) -> None:
    read: list[str] = []

    def summarise(prompt: Any) -> str:
        read.append(str(prompt.body["messages"]))
        return f"Summary {len(read)}"

    agent = coder(policy=SummaryAndRecent(4), summary=AutoSummary(by=scribe(summarise)))
    with opened(tmp_path / "t.db") as conversation:
        talk(conversation, Team([agent]), 6)

    assert ("Question 0" in read[0], "Summary" in read[0]) == (True, False)
    assert ("Question 0" in read[1], "Summary 1" in read[1]) == (False, True)
