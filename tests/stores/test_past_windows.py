"""Windows of the past in memory: requests at any position, in any order, are those of a log cut there."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import stenolog
from stenolog import AgentCard, AssistantMessage, Event, ModeSwitch, UserMessage
from stenolog.adapters.conversation.queries.requests.window_cache import STRIDE, windows_of
from stenolog.context import Budget
from stenolog.projections.requests import build

TEXT = "Which test fails, and since which commit? "


def said(number: int) -> list[Event]:
    chance = random.Random(7)
    return [
        event
        for turn in range(number // 2)
        for event in (
            UserMessage(f"{turn}: {TEXT * chance.randint(1, 4)}"),
            AssistantMessage(agent="coder", text=TEXT * chance.randint(1, 9)),
        )
    ]


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "talks.db"
    with stenolog.open(path) as log:
        talk = log["demo"]
        talk.join("coder", model="gpt-5.2", policy=Budget(1_000))
        talk.extend(said(700), expected=talk.position)
    return path


def test_requests_at_any_position_in_any_order_are_those_of_another_process(db: Path) -> None:
    chance = random.Random(3)
    asked = [chance.randint(2, 700) for _ in range(40)] + [*range(400, 410)] + [*range(300, 290, -1)]
    with stenolog.open(db) as log:
        talk = log["demo"]
        found = [talk.request("coder", at).sha256 for at in asked]
        assert len(windows_of(log)) > 10
    for at, sha256 in zip(asked, found, strict=True):
        with stenolog.open(db) as log:
            assert log["demo"].request("coder", at).sha256 == sha256


def test_a_jump_takes_in_few_entries(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stenolog.projections.requests.incremental.window import Window

    with stenolog.open(db) as log:
        talk = log["demo"]
        talk.request("coder", 690)
        taken: list[int] = []
        take = Window.take

        def counted(window: Window, entry: stenolog.Entry) -> object:
            taken.append(entry.position)
            return take(window, entry)

        monkeypatch.setattr(Window, "take", counted)
        for at in (100, 650, 333, 332, 600):
            taken.clear()
            talk.request("coder", at)
            assert len(taken) <= STRIDE


def test_an_erasure_forgets_the_windows_of_its_conversation(db: Path) -> None:
    with stenolog.open(db) as log:
        talk = log["demo"]
        talk.request("coder", 300)
        assert len(windows_of(log))
        talk.erase(290)
        assert not len(windows_of(log))


def test_a_policy_that_a_card_brought_later_is_not_that_of_earlier_positions(db: Path) -> None:
    with stenolog.open(db) as log:
        talk = log["demo"]
        card = AgentCard(model="gpt-5.2", policy=Budget(3_000))
        talk.append(ModeSwitch(cards={"coder": card}), expected=talk.position)
        talk.extend(said(200), expected=talk.position)
        asked = [talk.position, 350, 690, 750, 120, talk.position - 1]
        found = [talk.request("coder", at).sha256 for at in asked]
        for at, sha256 in zip(asked, found, strict=True):
            assert build(talk.entries(at=at), "coder").sha256 == sha256
