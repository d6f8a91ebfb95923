"""Folds: the state after a log, step by step, and taken up again."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from stenolog import AssistantMessage, Entry, Fold, UserMessage, fold
from stenolog.domain.lanes.step import INITIAL, evolve
from stenolog.domain.settings import NOTHING, configure
from stenolog.testing import entries
from tests.strategies import logs


@fold(initial=0)
def words_said(total: int, entry: Entry) -> int:
    match entry.event:
        case AssistantMessage(text=text):
            return total + len(text.split())
        case _:
            return total


FOLDS: list[Fold[Any]] = [words_said, Fold("state", INITIAL, evolve), Fold("settings", NOTHING, configure)]


def test_a_fold_is_made_of_a_function_and_called_by_its_name() -> None:
    log = entries(UserMessage(text="one"), AssistantMessage(agent="coder", text="two three"))

    assert words_said(log) == 2
    assert list(words_said.steps(log)) == [0, 0, 2]
    assert (words_said.name, words_said.version, words_said.initial) == ("words_said", 1, 0)


def test_a_fold_may_have_another_name_and_a_version() -> None:
    named = fold(initial=0, name="words", version=3)(words_said.evolve)

    assert (named.name, named.version) == ("words", 3)


def test_a_fold_goes_on_from_a_state_that_was_kept() -> None:
    assert words_said(entries(AssistantMessage(agent="coder", text="two three")), start=40) == 42


@given(log=logs())
def test_the_steps_of_a_fold_are_its_states_after_each_entry(log: list[Entry]) -> None:
    for each in FOLDS:
        assert [*each.steps(log)] == [each(log[:n]) for n in range(len(log) + 1)]


@given(log=logs())
def test_a_fold_in_two_pieces_is_the_fold_in_one(log: list[Entry]) -> None:
    half = len(log) // 2
    for each in FOLDS:
        assert each(log[half:], start=each(log[:half])) == each(log)
