"""A recorded run is run again without a model, and stops at the first request that differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, Conversation, Team, ToolResult
from stenolog.adapters.engine.replay import order
from stenolog.engine import Agent, Replay
from stenolog.errors import ModelError, ReplayMismatchError
from stenolog.models import Scripted
from stenolog.projections.analysis.retry import Change, Here, cases, tried
from stenolog.tools import Attachment, tool
from tests.engine.given import Clock, call, opened, outline, run, run_team


@tool
def look() -> list[Any]:
    """Look."""
    return ["a cat", Attachment(b"\x89PNG", "image/png")]


def coder(*turns: Any) -> Agent:
    return Agent("coder", llm=Scripted(*turns, name="gpt-5.2"), persona="You are coder.", tools=[look])


def record(conversation: Conversation, clock: Clock) -> None:
    turns = ([call("look")], ModelError("overloaded", "busy"), "It is a cat.")
    run(run_team(Team([coder(*turns)], world=clock.world), conversation, "What is it?"))


def test_a_recorded_run_comes_to_the_same_requests_without_a_model_or_a_tool(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path / "t.db", clock) as conversation:
        record(conversation, clock)
        again = conversation.log["again"]
        recording = Replay(conversation)
        run(run_team(Team([recording.agent(coder())], world=clock.world), again, "What is it?"))

        assert outline(again) == outline(conversation)
        assert receipts(again) == receipts(conversation)
        assert recording.remaining == 0


def receipts(conversation: Conversation) -> list[str]:
    events = [entry.event for entry in conversation.entries()]
    return [e.receipt.sha256 for e in events if isinstance(e, AssistantMessage) and e.receipt is not None]


def test_an_agent_is_made_from_its_recorded_card_alone(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path / "t.db", clock) as conversation:
        record(conversation, clock)
        again = conversation.log["again"]
        run(run_team(Team([Replay(conversation).agent("coder")], world=clock.world), again, "What is it?"))

        assert receipts(again) == receipts(conversation)


def test_a_changed_prompt_stops_at_the_first_request_that_differs(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path / "t.db", clock) as conversation:
        record(conversation, clock)
        changed = replace(coder(), persona="You are a poet.")
        team = Team([Replay(conversation).agent(changed)], world=clock.world)

        with pytest.raises(
            ReplayMismatchError, match=r'/messages/0/content: expected "You are coder\.", found "You are a'
        ):
            run(run_team(team, conversation.log["again"], "What is it?"))
        assert [kind for kind, _ in outline(conversation.log["again"])] == ["user_message"]


def test_one_request_more_than_was_recorded_is_a_divergence(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path / "t.db", clock) as conversation:
        record(conversation, clock)
        team = Team([Replay(conversation).agent(coder())], world=clock.world)
        again = conversation.log["again"]
        run(run_team(team, again, "What is it?"))

        with pytest.raises(ReplayMismatchError, match="once more than was recorded"):
            run(run_team(team, again, "And now?"))


def test_large_results_are_given_whole(tmp_path: Path) -> None:
    @tool
    def read() -> str:
        """Read."""
        return "a line of it\n" * 20_000

    with opened(tmp_path / "t.db") as conversation:
        reader = Agent("reader", llm=Scripted(call("read"), "Long."), tools=[read])
        run(run_team(Team([reader]), conversation, "Read it."))
        again = conversation.log["again"]
        recording = Replay(conversation)
        run(run_team(Team([recording.agent(reader)]), again, "Read it."))
        result = next(entry.event for entry in again.entries() if isinstance(entry.event, ToolResult))

        assert len(conversation.log.blobs[result.blob]) == 260_000
        assert (outline(again), recording.remaining) == (outline(conversation), 0)


def test_agents_at_work_together_answer_in_the_order_in_which_they_did(tmp_path: Path) -> None:
    three = [
        Agent(
            name, llm=Scripted([call("look", name)], f"{name} one", f"{name} two", pause=pause), tools=[look]
        )
        for name, pause in (("slow", 0.06), ("brisk", 0.03), ("quick", 0.0))
    ]
    with opened(tmp_path / "t.db") as conversation:
        for words in ("Go", "Again"):
            run(run_team(Team(three), conversation, words))
        again = conversation.log["again"]
        recording = Replay(conversation)
        team = Team([recording.agent(agent) for agent in three])
        for words in ("Go", "Again"):
            run(run_team(team, again, words))

        assert (outline(again), recording.remaining) == (outline(conversation), 0)


def test_an_answer_waits_for_no_other_that_will_not_come(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(order, "PATIENCE", 0.05)
    with opened(tmp_path / "t.db") as conversation:
        pair = [Agent("a", llm=Scripted("a", pause=0.05)), Agent("b", llm=Scripted("b"))]
        run(run_team(Team(pair), conversation, "Go"))
        again = conversation.log["again"]
        recording = Replay(conversation)
        team = Team([recording.agent(agent) for agent in pair], parallel=1)
        with pytest.raises(ReplayMismatchError, match="b: the request differs"):
            run(run_team(team, again, "Go"))

        assert [text for _, text in outline(conversation)] == ["Go", "b", "a"]
        assert [text for _, text in outline(again)] == ["Go", "a"]


def test_a_log_is_run_again_as_it_is_and_under_another_card(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path / "t.db", clock) as conversation:
        record(conversation, clock)
        entries = list(conversation.entries())
        card = conversation.settings().cards["coder"]
        here = Here(blobs=conversation.log.blobs)
        same = tried(entries, cases(entries), means=here)
        poet = Change(cards={"coder": replace(card, persona="You are a poet.")})
        other = tried(entries, cases(entries), poet, here)

    assert [one.what for one in same] == ["same"] * 3
    assert {(one.what, one.pointer) for one in other} == {("changed", "/messages/0/content")}


def test_a_call_that_the_engine_would_not_make_is_a_divergence(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path / "t.db", clock) as conversation:
        record(conversation, clock)
        entries = list(conversation.entries())
        last = entries[-1]
        assert isinstance(last.event, AssistantMessage)
        odd = last._replace(event=replace(last.event, cause=1))
        log = [*entries[:-1], odd]
        *same, found = tried(log, cases(log), means=Here(blobs=conversation.log.blobs))

    assert {one.what for one in same} == {"same"}
    assert (found.case.position, found.pointer, found.expected) == (6, "", "a model call for position 1")
