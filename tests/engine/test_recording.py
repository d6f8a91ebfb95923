"""A recorded run is run again without a model, and stops at the first request that differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, Conversation, Diverged, ModelFailed, Team
from stenolog.engine import Agent, Recording
from stenolog.models import Scripted
from stenolog.projections.analysis.rerun import Here, rerun
from stenolog.tools import Media, tool
from tests.engine.given import Clock, call, opened, run, told, worked


@tool
def look() -> list[Any]:
    """Look."""
    return ["a cat", Media(b"\x89PNG", "image/png")]


def coder(*turns: Any) -> Agent:
    return Agent("coder", llm=Scripted(*turns, name="gpt-5.2"), persona="You are coder.", tools=[look])


def record(talk: Conversation, clock: Clock) -> None:
    turns = ([call("look")], ModelFailed("overloaded", "busy"), "It is a cat.")
    run(worked(Team([coder(*turns)], world=clock.world), talk, "What is it?"))


def test_a_recorded_run_comes_to_the_same_requests_without_a_model_or_a_tool(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path / "t.db", clock) as talk:
        record(talk, clock)
        again = talk.log["again"]
        recording = Recording(talk)
        run(worked(Team([recording.agent(coder())], world=clock.world), again, "What is it?"))

        assert told(again) == told(talk)
        assert receipts(again) == receipts(talk)
        assert recording.left == 0


def receipts(talk: Conversation) -> list[str]:
    events = [entry.event for entry in talk.entries()]
    return [e.receipt.sha256 for e in events if isinstance(e, AssistantMessage) and e.receipt is not None]


def test_an_agent_is_made_from_its_recorded_card_alone(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path / "t.db", clock) as talk:
        record(talk, clock)
        again = talk.log["again"]
        run(worked(Team([Recording(talk).agent("coder")], world=clock.world), again, "What is it?"))

        assert receipts(again) == receipts(talk)


def test_a_changed_prompt_stops_at_the_first_request_that_differs(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path / "t.db", clock) as talk:
        record(talk, clock)
        changed = replace(coder(), persona="You are a poet.")
        team = Team([Recording(talk).agent(changed)], world=clock.world)

        with pytest.raises(
            Diverged, match=r'/messages/0/content: expected "You are coder\.", found "You are a'
        ):
            run(worked(team, talk.log["again"], "What is it?"))
        assert [kind for kind, _ in told(talk.log["again"])] == ["user_message"]


def test_one_request_more_than_was_recorded_is_a_divergence(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path / "t.db", clock) as talk:
        record(talk, clock)
        team = Team([Recording(talk).agent(coder())], world=clock.world)
        again = talk.log["again"]
        run(worked(team, again, "What is it?"))

        with pytest.raises(Diverged, match="once more than was recorded"):
            run(worked(team, again, "And now?"))


def test_a_log_is_run_again_as_it_is_and_under_another_card(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path / "t.db", clock) as talk:
        record(talk, clock)
        entries = list(talk.entries())
        card = talk.settings().cards["coder"]
        here = Here(blobs=talk.log.blobs)
        same = rerun(entries, here=here)
        other = rerun(entries, {"coder": replace(card, persona="You are a poet.")}, here)

    assert (same.requests, same.divergence) == (3, None)
    assert other.requests == 0
    assert other.divergence is not None
    assert (other.divergence.position, other.divergence.pointer) == (3, "/messages/0/content")


def test_a_call_that_the_engine_would_not_make_is_a_divergence(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path / "t.db", clock) as talk:
        record(talk, clock)
        entries = list(talk.entries())
        last = entries[-1]
        assert isinstance(last.event, AssistantMessage)
        odd = last._replace(event=replace(last.event, cause=1))
        found = rerun([*entries[:-1], odd], here=Here(blobs=talk.log.blobs)).divergence

    assert found is not None
    assert (found.position, found.pointer, found.expected) == (6, "", "a model call for position 1")
