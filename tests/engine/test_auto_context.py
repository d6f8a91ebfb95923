"""Summaries and memories that a team makes by itself, from the configuration of an agent alone."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from stenolog import Agent, AssistantMessage, Conversation, Team, ToolCall
from stenolog.context import LastN, MemoriesAndRecent, SummaryAndRecent
from stenolog.engine import AutoMemory, AutoSummary, RetryPolicy
from stenolog.errors import CallerError, ModelError
from stenolog.models import ModelRequest, Scripted
from stenolog.tools import remember
from tests.engine.given import opened, run, worked


def scribe(*turns: Any) -> Agent:
    return Agent("scribe", llm=Scripted(*(turns or ("They talked.",)), endless=True))


def coder(**options: Any) -> Agent:
    return Agent("coder", llm=Scripted("Yes.", endless=True), **options)


def talk(conversation: Conversation, team: Team, number: int) -> None:
    for n in range(number):
        run(worked(team, conversation, f"Question {n}"))


def kept(conversation: Conversation, purpose: str) -> list[AssistantMessage]:
    events = (entry.event for entry in conversation.entries())
    return [e for e in events if isinstance(e, AssistantMessage) and e.purpose == purpose]


def texts(conversation: Conversation) -> list[str]:
    return [message["content"] for message in conversation.request("coder").body["messages"]]


def test_what_the_policy_would_cut_is_summarised_before_the_request_is_sent(tmp_path: Path) -> None:
    agent = coder(policy=SummaryAndRecent(6), summary=AutoSummary(by=scribe()))
    with opened(tmp_path / "t.db") as conversation:
        talk(conversation, Team([agent]), 8)

        sent = [answer.receipt for answer in kept(conversation, "answer")]
        summaries = kept(conversation, "summary")
        requests = [conversation.request("coder", receipt.view) for receipt in sent if receipt]
        told = ["They talked." in str(r.body) for r in requests if r.cuts]
        assert (len(summaries), summaries[0].text, len(told), all(told)) == (3, "They talked.", 5, True)
        assert "<summary>\nThey talked.\n</summary>" in texts(conversation)


def test_a_summary_is_made_once_a_request_is_too_large_though_nothing_was_cut(tmp_path: Path) -> None:
    agent = coder(summary=AutoSummary(by=scribe(), over=60, keep=2))
    with opened(tmp_path / "t.db") as conversation:
        talk(conversation, Team([agent]), 3)
        before = len(kept(conversation, "summary"))
        talk(conversation, Team([agent]), 8)

        assert (before, len(kept(conversation, "summary")) > 0) == (0, True)


def test_an_agent_of_the_team_may_write_them_and_answers_no_turn_by_that(tmp_path: Path) -> None:
    agent = coder(policy=LastN(4), summary=AutoSummary(by="coder"))
    with opened(tmp_path / "t.db") as conversation:
        talk(conversation, Team([agent]), 4)

        assert {made.text for made in kept(conversation, "summary")} == {"Yes."}
        assert len(kept(conversation, "answer")) == 4


def test_a_summariser_that_fails_is_a_warning_and_not_asked_for_each_entry(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Agent("scribe", Scripted(ModelError("other", "broken"), endless=True), retries=RetryPolicy({}))
    with opened(tmp_path / "t.db") as conversation, caplog.at_level(logging.WARNING):
        talk(conversation, Team([coder(policy=LastN(4), summary=AutoSummary(by=broken))]), 5)

        assert (len(kept(conversation, "answer")), kept(conversation, "summary")) == (5, [])
        assert "AutoSummary for coder failed: no summary: scribe has stopped" in caplog.text


def test_between_two_steps_of_one_run_the_older_steps_are_summarised(tmp_path: Path) -> None:
    def look(page: int) -> str:
        """Look."""
        return f"{page} " + "line " * 200

    steps = [ToolCall(id=f"c{n}", name="look", arguments=f'{{"page": {n}}}') for n in range(8)]
    agent = Agent(
        "coder", Scripted(*steps, "Done."), tools=[look], summary=AutoSummary(by=scribe(), over=300, keep=2)
    )
    with opened(tmp_path / "t.db") as conversation:
        run(worked(Team([agent]), conversation, "Look eight times"))

        made = [e.position for e in conversation.entries() if getattr(e.event, "purpose", "") == "summary"]
        assert 0 < min(made, default=0) < conversation.position - 4
        assert kept(conversation, "answer")[-1].text == "Done."


def test_facts_are_written_down_after_every_so_many_answers_in_the_place_of_the_old_ones(
    tmp_path: Path,
) -> None:
    asked: list[str] = []

    def facts(call: ModelRequest) -> str:
        asked.append(call.body["messages"][-1]["content"])
        return f"Fact {len(asked)}"

    writer = Agent("scribe", llm=Scripted(facts, endless=True))
    agent = coder(policy=MemoriesAndRecent(2), memory=AutoMemory(by=writer, every=2))
    with opened(tmp_path / "t.db") as conversation:
        talk(conversation, Team([agent]), 5)

        memories = kept(conversation, "memory")
        shown = "\n".join(texts(conversation))
        assert ([m.text for m in memories], "Fact 2" in shown, "Fact 1" in shown) == (
            ["Fact 1", "Fact 2"],
            True,
            False,
        )
        assert "coder must not forget" in asked[0]


def test_remember_keeps_a_fact_for_the_agent_that_calls_it_once(tmp_path: Path) -> None:
    call = ToolCall(id="c1", name="remember", arguments='{"fact": "The oven is broken."}')
    agent = Agent("coder", Scripted(call, "Noted."), tools=[remember], policy=MemoriesAndRecent(1))
    with opened(tmp_path / "t.db") as conversation:
        run(worked(Team([agent]), conversation, "The oven is broken."))
        talk(conversation, Team([coder(policy=MemoriesAndRecent(1))]), 3)

        assert [m.text for m in kept(conversation, "memory")] == ["The oven is broken."]
        assert any("The oven is broken." in text for text in texts(conversation))


def test_a_writer_that_the_team_does_not_have_is_refused() -> None:
    with pytest.raises(CallerError, match=r"agent 'coder': by: expected an agent with a model \('coder'\)"):
        Team([coder(summary=AutoSummary(by="nobody"))])
    with pytest.raises(CallerError, match="every: expected a whole number from 1 on, found 0"):
        AutoMemory(by="coder", every=0)
