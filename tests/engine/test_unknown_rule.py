"""A conversation under a registered turn rule, read by a process that does not register it."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

import stenolog
from stenolog import Agent, AssistantMessage, ModeSwitch, Team, UserMessage
from stenolog.apps import cli
from stenolog.domain.errors import InvalidPolicyError
from stenolog.domain.lanes.state import State
from stenolog.domain.lanes.turns import TURN_RULES, NextTurn, TurnRule, TurnView, present, register_turn_rule
from stenolog.domain.values import TurnPolicy
from stenolog.models import Scripted


class ByTurns(TurnRule):
    """The two members speak in turn, without end."""

    __slots__ = ()
    name: ClassVar[str] = "by-turns"

    def begin(self, state: State) -> NextTurn:
        return NextTurn(present(state, state.members[:1]), "the first")

    def after(self, state: State, turn: TurnView) -> NextTurn:
        return NextTurn(present(state, [name for name in state.members if name != turn.lane]), "the other")


@contextmanager
def registered() -> Iterator[None]:
    register_turn_rule(ByTurns)
    try:
        yield
    finally:
        TURN_RULES.remove("by-turns")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a log whose conversation `d` stands at b's turn, by the rule."""
    path = tmp_path / "a.db"
    with registered(), stenolog.open(path) as log:
        opening = ModeSwitch(mode="chat", joins=["a", "b"], turns=TurnPolicy(rule="by-turns"))
        log["d"].append(opening, expected=0)
        log["d"].append(UserMessage(text="Go on."))
        for number in range(101):
            log["d"].append(AssistantMessage(agent="ab"[number % 2], text=f"{number}"))
    return path


def test_a_process_without_the_rule_changes_nothing_for_one_that_has_it(path: Path) -> None:
    with stenolog.open(path) as log:
        assert log["d"].state().turn_state.holders == ()
        log["d"].append(UserMessage(text="Further.", author_kind="system"))
        assert log["d"].state().turn_state.holders == ()

    with registered(), stenolog.open(path) as log:
        assert log["d"].state().turn_state.holders == ("b",)


def test_another_version_of_the_rule_folds_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with registered(), stenolog.open(path) as log:
        assert log["d"].state().turn_state.holders == ("b",)
    monkeypatch.setattr(ByTurns, "version", 2)
    monkeypatch.setattr(ByTurns, "after", lambda self, state, turn: NextTurn(reason="enough"))

    with registered(), stenolog.open(path) as log:
        assert log["d"].state().turn_state.holders == ()


def test_a_team_does_not_run_under_a_rule_that_is_not_registered_and_says_which(path: Path) -> None:
    async def run(log: stenolog.Log) -> None:
        async with Team([Agent("a", llm=Scripted("x")), Agent("b", llm=Scripted("y"))]) as team:
            async for _ in team.run(log["d"], "Hello"):
                pass

    with stenolog.open(path) as log:
        before = log["d"].position
        with pytest.raises(InvalidPolicyError, match="found 'by-turns': a plugin may add it"):
            asyncio.run(run(log))

        assert log["d"].position == before


def test_the_state_on_the_command_line_says_that_the_rule_is_not_registered(path: Path) -> None:
    with io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) as out:
        with contextlib.redirect_stdout(out):
            assert cli.run(["state", "d", "--db", str(path)]) == 0
        told = out.buffer.getvalue().decode()

    assert "'by-turns', a rule that is not registered here" in told
