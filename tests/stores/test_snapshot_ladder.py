"""Snapshots of the past in memory: requests at any position, in any order, are those of a log cut there."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import stenolog
from stenolog import AssistantMessage, Event, UserMessage
from stenolog.adapters.conversation.queries.requests.building import FAR
from stenolog.adapters.conversation.queries.requests.window_cache import (
    MOST_RUNGS,
    SPACING,
    Rung,
    SnapshotLadder,
    windows_of,
)
from stenolog.context import Budget
from stenolog.projections.requests.incremental.window import START

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
        assert len(windows_of(log).ladder(talk.key or 0, _name(log))) > 3
    for at, sha256 in zip(asked, found, strict=True):
        with stenolog.open(db) as log:
            assert log["demo"].request("coder", at).sha256 == sha256


def _name(log: stenolog.Log) -> str:
    [(_, name)] = windows_of(log)._ladders
    return name


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
            assert len(taken) <= max(SPACING, FAR)


def test_an_erasure_forgets_the_snapshots_of_its_conversation(db: Path) -> None:
    with stenolog.open(db) as log:
        talk = log["demo"]
        talk.request("coder", 300)
        assert len(windows_of(log).ladder(talk.key or 0, _name(log)))
        talk.erase(290)
        assert not windows_of(log)._ladders


def test_a_ladder_that_is_full_keeps_every_second_rung() -> None:
    ladder = SnapshotLadder()
    for at in range(SPACING, SPACING * (MOST_RUNGS + 2), SPACING):
        ladder.add(Rung(at, "", START))
    assert len(ladder) == (MOST_RUNGS + 1) // 2
    assert not ladder.wants(SPACING)
    found = ladder.nearest(SPACING * 5)
    assert found is not None
    assert found.position == SPACING * 4
    assert ladder.nearest(1) is None
