"""Checkpoints: kept beside the log, equal to the fold from zero, and never needed."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha512

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stenolog
from stenolog import (
    Conversation,
    Entry,
    Event,
    Fold,
    Log,
)
from stenolog.adapters import keeping
from stenolog.adapters.keeping import SETTINGS, STATE, kept
from stenolog.adapters.stores import checkpoints
from stenolog.adapters.verify import verify
from stenolog.domain.settings import settings as settings_of
from stenolog.domain.step import fold as state_of
from stenolog.testing import examples
from tests.stores.conftest import said, turns

COUNT = kept(Fold("count", 0, lambda total, entry: total + 1), int)


def test_a_second_look_reads_only_what_is_new(talk: Conversation, folded: Callable[[], int]) -> None:
    talk.extend(turns(25))
    first = talk.state()
    assert folded() == 101

    assert talk.state() == first
    assert folded() == 0
    said(talk, "more")
    assert talk.state().position == 102
    assert folded() == 1


def test_a_short_tail_is_not_worth_a_checkpoint(talk: Conversation, folded: Callable[[], int]) -> None:
    talk.extend(turns(4))

    talk.state(), talk.state()
    assert folded() == 34


def test_what_was_folded_once_is_known_at_every_position_since(
    talk: Conversation, folded: Callable[[], int]
) -> None:
    talk.extend(turns(50))
    whole = list(talk.entries())
    talk.state(), talk.settings()
    folded()

    for at in range(1, 202):
        assert talk.state(at) == state_of(whole[:at])
        assert talk.settings(at) == settings_of(whole[:at])
    assert folded() == 0


def test_a_look_back_at_what_was_never_folded_is_kept_too(
    talk: Conversation, folded: Callable[[], int]
) -> None:
    talk.extend(turns(50))

    talk.state(upto=150)
    assert folded() == 150
    talk.state(upto=149)
    assert folded() == 149 - 128
    talk.state(upto=100)
    assert folded() == 0


def test_runs_of_several_looks_may_overlap(talk: Conversation, folded: Callable[[], int]) -> None:
    talk.extend(turns(50))
    keeping.keep(talk, STATE, next(talk.entries(after=119)), talk.state(upto=120))
    talk.log.checkpoints.put(talk.stream.key or 0, "state", STATE.version)  # nothing at all is no harm
    talk.state(upto=180)
    keeping.keep(talk, STATE, next(talk.entries(after=139)), talk.state(upto=140))

    assert [talk.state(at) for at in range(1, 202)] == [
        state_of(talk.entries(upto=at)) for at in range(1, 202)
    ]
    assert verify(talk).ok


class TestLargeStates:
    """A state that would take more than its share of the file is kept less often, and alone."""

    words = kept(
        Fold(
            "words",
            "",
            lambda words, entry: f"{words}{entry.position:04}" * 2 if len(words) < 9000 else words[::-1],
        ),
        str,
    )

    def test_they_are_right_at_every_position(self, talk: Conversation) -> None:
        talk.extend(turns(100))
        talk.fold(self.words)

        for at in (1, 31, 32, 33, 200, 256, 257, 399, 400, None):
            assert talk.fold(self.words, at) == self.words.fold(talk.entries(upto=at))

    def test_what_is_kept_of_them_is_in_proportion_to_the_log(self, talk: Conversation) -> None:
        for _ in range(20):
            talk.extend(turns(25))
            talk.fold(self.words)

        runs = list(talk.log.checkpoints.runs(talk.stream.key or 0, "words", self.words.version))
        assert sum(len(state) for run in runs for _, state in run.changes) < 2001 * checkpoints.LIGHT * 2

    def test_small_ones_that_nothing_packs_are_kept_alone_too(self, talk: Conversation) -> None:
        def scramble(words: str, entry: Entry) -> str:
            return "".join(sha512(f"{n}{words}".encode()).hexdigest() for n in range(15))

        noise = kept(Fold("noise", "", scramble), str)
        talk.extend(turns(50))

        for at in (150, 150, 100, None):
            assert talk.fold(noise, at) == noise.fold(talk.entries(upto=at))
        runs = list(talk.log.checkpoints.runs(talk.stream.key or 0, "noise", noise.version))
        assert {len(run.changes) for run in runs} == {1}

    def test_the_last_one_is_at_hand(self, talk: Conversation, folded: Callable[[], int]) -> None:
        talk.extend(turns(100))
        talk.fold(self.words)
        folded()

        talk.fold(self.words)
        assert folded() == 0


@given(st.lists(st.sampled_from([*examples().values(), *turns(1)]), max_size=90), st.integers(0, 90))
@settings(max_examples=25, derandomize=True, deadline=None)
def test_a_checkpoint_equals_the_fold_from_zero(events: list[Event], upto: int) -> None:
    with stenolog.open(":memory:") as log, pytest.MonkeyPatch.context() as patch:
        patch.setattr(keeping, "WORTH_KEEPING", 1)
        talk = log["demo"]
        log.blobs.put(b"test")  # the one that the examples name
        for event in events:
            talk.append(event, expected=talk.position)
            talk.state(), talk.settings()

        for at in (None, min(upto, talk.position)):
            assert talk.state(at) == state_of(talk.entries(upto=at))
            assert talk.settings(at) == settings_of(talk.entries(upto=at))
        assert STATE.load(STATE.dump(talk.state())) == talk.state()
        assert SETTINGS.load(SETTINGS.dump(talk.settings())) == talk.settings()
        assert verify(log).ok


def test_any_fold_can_be_kept_up_to_date(talk: Conversation, folded: Callable[[], int]) -> None:
    talk.extend(turns(25))

    assert talk.fold(COUNT) == 101
    folded()
    assert talk.fold(COUNT) == 101
    assert folded() == 0


def test_another_version_of_a_fold_begins_anew(talk: Conversation, folded: Callable[[], int]) -> None:
    talk.extend(turns(25))
    talk.fold(COUNT)
    folded()

    twice = kept(Fold("count", 0, lambda total, entry: total + 2, version=2), int)
    assert talk.fold(twice) == 202
    assert folded() == 101
    assert list(talk.log.checkpoints.runs(talk.stream.key or 0, "count", COUNT.version)) == []


def test_a_checkpoint_of_another_release_is_not_used(
    talk: Conversation, folded: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    talk.extend(turns(25))
    talk.state()
    folded()
    monkeypatch.setattr(stenolog, "__version__", "99.0")

    talk.state()
    assert folded() == 101


def test_a_checkpoint_survives_a_rename(log: Log, talk: Conversation, folded: Callable[[], int]) -> None:
    talk.extend(turns(25))
    talk.state()
    talk.rename("new")
    folded()

    log["new"].state()
    assert folded() == 0


def test_a_deleted_conversation_leaves_none_behind(log: Log, talk: Conversation) -> None:
    talk.extend(turns(25))
    talk.state()
    key = talk.stream.key or 0
    assert log.checkpoints.names(key) == ["state"]
    talk.delete()

    assert log.checkpoints.names(key) == []


def test_a_fork_has_checkpoints_of_its_own(talk: Conversation) -> None:
    talk.extend(turns(25))
    talk.state()
    fork = talk.fork(after=80)
    fork.extend(turns(25))
    fork.state()

    assert fork.state() == state_of(fork.entries())
    assert talk.state() == state_of(talk.entries())


def test_a_fork_begins_where_its_parent_has_come_to(talk: Conversation, folded: Callable[[], int]) -> None:
    talk.extend(turns(50))
    talk.state(), talk.settings()
    fork = talk.fork(after=120)
    fork.extend(turns(1))
    child = fork.fork()
    folded()

    assert child.state().position == 126
    assert folded() == 6
    assert child.state(upto=77) == talk.state(upto=77)
    assert folded() == 0
    assert [child.state(at) for at in (119, 120, 121, 126)] == [
        state_of(child.entries(upto=at)) for at in (119, 120, 121, 126)
    ]
    assert child.settings() == settings_of(child.entries())
