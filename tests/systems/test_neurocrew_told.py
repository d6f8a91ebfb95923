"""System 1: what agents, the operator and people are told of what an agent is shown."""

from __future__ import annotations

import logging

import pytest

from stenolog import AgentCard, AssistantMessage, ModeSwitch, Settings, UserMessage
from stenolog.chats import render_entry
from stenolog.context import (
    Budget,
    FullHistory,
    LastN,
    MemoriesAndRecent,
    Pins,
    Policy,
    Prompt,
    Reminder,
    SinceLastTurn,
    SinceLastTurnOrRecent,
    SummaryAndRecent,
    policy,
)
from stenolog.engine import Agent, AutoSummary, Team
from stenolog.models import Scripted
from tests.systems.given import Room
from tests.systems.test_neurocrew_crew import talked

DEV = "Backend Dev"
PERSONA = "You write the server."


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        (policy(FullHistory()), "this conversation"),
        (policy(SinceLastTurn()), "what is new since your last turn; what was before is in your session"),
        (
            policy(SinceLastTurnOrRecent(20)),
            "where your session begins, each summary and each memory and the last 20 messages; "
            "then what is new since your last turn",
        ),
        (LastN(50) | Budget(tokens=16_000), "the last 50 messages; at most 16,000 tokens"),
        (policy(SummaryAndRecent(20)), "each summary and the last 20 messages"),
        (
            MemoriesAndRecent(20) | Pins(tags=["intent"]),
            "each memory and the last 20 messages; pinned messages",
        ),
    ],
)
def test_a_role_is_told_in_its_system_prompt_what_it_is_shown_where_its_policy_says_so(
    room: Room, chosen: Policy, told: str
) -> None:
    room.write(ModeSwitch(joins=[DEV], cards={DEV: AgentCard(persona=PERSONA)}), UserMessage(text="Hello"))

    request = room.request(DEV, policy=chosen | Prompt(scope_note=True))

    assert request.body["messages"][0]["content"] == f"{PERSONA}\n\n[what you are shown: {told}]"
    assert "what you are shown" not in str(room.request(DEV, policy=chosen).body)


def test_after_a_reset_the_answers_are_counted_anew_for_the_next_reminder(room: Room) -> None:
    chosen = FullHistory() | Reminder(2, text="Stay in role.")
    room.write(ModeSwitch(joins=[DEV], cards={DEV: AgentCard(persona=PERSONA)}))
    reminded = []
    for n in range(6):
        if n == 3:
            room.write(ModeSwitch(context_from=len(room.entries()) + 1))
        room.write(UserMessage(text=f"Question {n}"))
        reminded.append("Stay in role." in str(room.answer(DEV, "Yes.", policy=chosen).body))

    assert reminded == [False, False, True, False, False, True]


def test_what_a_summary_has_in_its_words_is_no_loss_to_warn_of(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    scribe = Agent("scribe", llm=Scripted("They talked.", endless=True))
    dev = Agent(
        DEV,
        llm=Scripted("Yes.", endless=True),
        policy=SummaryAndRecent(4),
        summary=AutoSummary(by=scribe),
    )
    with caplog.at_level(logging.WARNING, "stenolog.engine"):
        talked(room, lambda: Team([dev]), *"abcde")

    assert [record.getMessage() for record in caplog.records if "not shown" in record.getMessage()] == []


def test_a_person_in_a_chat_sees_what_an_answer_was_given_without_where_that_is_wanted(room: Room) -> None:
    dev = Agent(DEV, llm=Scripted("Yes.", endless=True), policy=LastN(2))
    talked(room, lambda: Team([dev]), "one", "two")

    last = room.entries()[-1]
    shown = [render_entry(cuts=wanted)(last, Settings()) for wanted in (False, True)]

    assert isinstance(last.event, AssistantMessage)
    assert shown == [["Yes."], ["Yes.\n\n(answered without 2)"]]
