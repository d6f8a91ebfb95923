"""Checkpoints: kept beside the log, equal to the fold from zero, and never needed."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha512

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stenolog
from stenolog import Conversation, Entry, Event, Fold, Log
from stenolog.adapters.conversation.queries import folds
from stenolog.adapters.conversation.queries.folds import SETTINGS, STATE, persistent
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.store.sidecar import checkpoints
from stenolog.domain.lanes.step import fold as state_of
from stenolog.domain.settings import settings as settings_of
from stenolog.testing import examples
from tests.stores.conftest import said, turns

COUNT = Fold("count", 0, lambda total, entry: total + 1, state=int)


def test_a_second_look_reads_only_what_is_new(conversation: Conversation, folded: Callable[[], int]) -> None:
    conversation.extend(turns(25))
    first = conversation.state()
    assert folded() == 101

    assert conversation.state() == first
    assert folded() == 0
    said(conversation, "more")
    assert conversation.state().position == 102
    assert folded() == 1


def test_a_short_tail_is_not_worth_a_checkpoint(
    conversation: Conversation, folded: Callable[[], int]
) -> None:
    conversation.extend(turns(4))

    conversation.state(), conversation.state()
    assert folded() == 34


def test_what_was_folded_once_is_known_at_every_position_since(
    conversation: Conversation, folded: Callable[[], int]
) -> None:
    conversation.extend(turns(50))
    whole = list(conversation.entries())
    conversation.state(), conversation.settings()
    folded()

    for at in range(1, 202):
        assert conversation.state(at) == state_of(whole[:at])
        assert conversation.settings(at) == settings_of(whole[:at])
    assert folded() == 0


def test_a_look_back_at_what_was_never_folded_is_kept_too(
    conversation: Conversation, folded: Callable[[], int]
) -> None:
    conversation.extend(turns(50))

    conversation.state(at=150)
    assert folded() == 150
    conversation.state(at=149)
    assert folded() == 149 - 128
    conversation.state(at=100)
    assert folded() == 0


def test_runs_of_several_looks_may_overlap(conversation: Conversation, folded: Callable[[], int]) -> None:
    conversation.extend(turns(50))
    folds.save_checkpoint(
        conversation, STATE, next(conversation.entries(after=119)), conversation.state(at=120)
    )
    conversation.log.checkpoints.put(
        conversation.stream.key or 0, "state", STATE.version
    )  # nothing at all is no harm
    conversation.state(at=180)
    folds.save_checkpoint(
        conversation, STATE, next(conversation.entries(after=139)), conversation.state(at=140)
    )

    assert [conversation.state(at) for at in range(1, 202)] == [
        state_of(conversation.entries(at=at)) for at in range(1, 202)
    ]
    assert verify(conversation).ok


class TestLargeStates:
    """A state that would take more than its share of the file is kept less often, and alone."""

    words = Fold(
        "words",
        "",
        lambda words, entry: f"{words}{entry.position:04}" * 2 if len(words) < 9000 else words[::-1],
        state=str,
    )

    def test_they_are_right_at_every_position(self, conversation: Conversation) -> None:
        conversation.extend(turns(100))
        conversation.fold(self.words)

        for at in (1, 31, 32, 33, 200, 256, 257, 399, 400, None):
            assert conversation.fold(self.words, at) == self.words(conversation.entries(at=at))

    def test_what_is_kept_of_them_is_in_proportion_to_the_log(self, conversation: Conversation) -> None:
        for _ in range(20):
            conversation.extend(turns(25))
            conversation.fold(self.words)

        runs = list(
            conversation.log.checkpoints.runs(
                conversation.stream.key or 0, "words", persistent(self.words).version
            )
        )
        assert sum(len(state) for run in runs for _, state in run.changes) < 2001 * checkpoints.LIGHT * 2

    def test_small_ones_that_nothing_packs_are_kept_alone_too(self, conversation: Conversation) -> None:
        def scramble(words: str, entry: Entry) -> str:
            return "".join(sha512(f"{n}{words}".encode()).hexdigest() for n in range(15))

        noise = Fold("noise", "", scramble, state=str)
        conversation.extend(turns(50))

        for at in (150, 150, 100, None):
            assert conversation.fold(noise, at) == noise(conversation.entries(at=at))
        runs = list(
            conversation.log.checkpoints.runs(
                conversation.stream.key or 0, "noise", persistent(noise).version
            )
        )
        assert {len(run.changes) for run in runs} == {1}

    def test_the_last_one_is_at_hand(self, conversation: Conversation, folded: Callable[[], int]) -> None:
        conversation.extend(turns(100))
        conversation.fold(self.words)
        folded()

        conversation.fold(self.words)
        assert folded() == 0


@given(st.lists(st.sampled_from([*examples().values(), *turns(1)]), max_size=90), st.integers(0, 90))
@settings(max_examples=25, derandomize=True, deadline=None)
def test_a_checkpoint_equals_the_fold_from_zero(events: list[Event], at: int) -> None:
    with stenolog.open(":memory:") as log, pytest.MonkeyPatch.context() as patch:
        patch.setattr(folds, "WORTH_KEEPING", 1)
        conversation = log["demo"]
        log.blobs.put(b"test")  # the one that the examples name
        for event in events:
            conversation.append(event, expected=conversation.position)
            conversation.state(), conversation.settings()

        for position in (None, min(at, conversation.position)):
            assert conversation.state(position) == state_of(conversation.entries(at=position))
            assert conversation.settings(position) == settings_of(conversation.entries(at=position))
        assert STATE.load(STATE.dump(conversation.state())) == conversation.state()
        assert SETTINGS.load(SETTINGS.dump(conversation.settings())) == conversation.settings()
        assert verify(log).ok


def test_any_fold_can_be_kept_up_to_date(conversation: Conversation, folded: Callable[[], int]) -> None:
    conversation.extend(turns(25))

    assert conversation.fold(COUNT) == 101
    folded()
    assert conversation.fold(COUNT) == 101
    assert folded() == 0


def test_another_version_of_a_fold_begins_anew(conversation: Conversation, folded: Callable[[], int]) -> None:
    conversation.extend(turns(25))
    conversation.fold(COUNT)
    folded()

    twice = Fold("count", 0, lambda total, entry: total + 2, version=2, state=int)
    assert conversation.fold(twice) == 202
    assert folded() == 101
    assert (
        list(
            conversation.log.checkpoints.runs(
                conversation.stream.key or 0, "count", persistent(COUNT).version
            )
        )
        == []
    )


def test_a_checkpoint_of_another_release_is_not_used(
    conversation: Conversation, folded: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation.extend(turns(25))
    conversation.state()
    folded()
    monkeypatch.setattr(folds, "__version__", "99.0")

    conversation.state()
    assert folded() == 101


def test_a_checkpoint_survives_a_rename(
    log: Log, conversation: Conversation, folded: Callable[[], int]
) -> None:
    conversation.extend(turns(25))
    conversation.state()
    conversation.rename("new")
    folded()

    log["new"].state()
    assert folded() == 0


def test_a_deleted_conversation_leaves_none_behind(log: Log, conversation: Conversation) -> None:
    conversation.extend(turns(25))
    conversation.state()
    key = conversation.stream.key or 0
    assert log.checkpoints.names(key) == ["state"]
    conversation.delete()

    assert log.checkpoints.names(key) == []


def test_a_fork_has_checkpoints_of_its_own(conversation: Conversation) -> None:
    conversation.extend(turns(25))
    conversation.state()
    fork = conversation.fork(after=80)
    fork.extend(turns(25))
    fork.state()

    assert fork.state() == state_of(fork.entries())
    assert conversation.state() == state_of(conversation.entries())


def test_a_fork_begins_where_its_parent_has_come_to(
    conversation: Conversation, folded: Callable[[], int]
) -> None:
    conversation.extend(turns(50))
    conversation.state(), conversation.settings()
    fork = conversation.fork(after=120)
    fork.extend(turns(1))
    child = fork.fork()
    folded()

    assert child.state().position == 126
    assert folded() == 6
    assert child.state(at=77) == conversation.state(at=77)
    assert folded() == 0
    assert [child.state(at) for at in (119, 120, 121, 126)] == [
        state_of(child.entries(at=at)) for at in (119, 120, 121, 126)
    ]
    assert child.settings() == settings_of(child.entries())
