"""Checkpoints: kept beside the log, equal to the fold from zero, and never needed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stenolog
from stenolog import (
    AssistantMessage,
    Conversation,
    Entry,
    Event,
    Fold,
    Log,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.adapters import keeping
from stenolog.adapters.keeping import SETTINGS, STATE, kept
from stenolog.adapters.stores import checkpoints
from stenolog.adapters.verify import verify
from stenolog.domain.settings import settings as settings_of
from stenolog.domain.step import fold as state_of
from stenolog.testing import examples
from tests.stores.conftest import said

COUNT = kept(Fold("count", 0, lambda total, entry: total + 1), int)


@pytest.fixture
def folded(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many entries have been read to be folded since the last call."""
    seen: list[Entry] = []
    read = Conversation.entries

    def counting(talk: Conversation, after: int = 0, upto: int | None = None) -> object:
        for entry in read(talk, after, upto):
            seen.append(entry)
            yield entry

    monkeypatch.setattr(Conversation, "entries", counting)

    def since() -> int:
        count = len(seen)
        seen.clear()
        return count

    return since


def turns(count: int) -> list[Event]:
    turn: list[Event] = [
        UserMessage(text="go"),
        AssistantMessage(agent="coder", tool_calls=[ToolCall(id="c1", name="shell")]),
        ToolResult(call_id="c1", text="done"),
        AssistantMessage(agent="coder", text="done"),
    ]
    return turn * count


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


def test_the_state_at_an_earlier_position_is_folded_from_a_checkpoint_before_it(
    talk: Conversation, folded: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "SPACING", 50)
    monkeypatch.setattr(checkpoints, "SPACING", 50)
    talk.extend(turns(50))
    talk.state()
    folded()

    early = talk.state(upto=120)
    assert folded() == 120 - 99
    assert early == state_of(talk.entries(upto=120))


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

        for at in (None, upto):
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


def test_a_fork_has_checkpoints_of_its_own(talk: Conversation) -> None:
    talk.extend(turns(25))
    talk.state()
    fork = talk.fork(after=80)
    fork.extend(turns(25))
    fork.state()

    assert fork.state() == state_of(fork.entries())
    assert talk.state() == state_of(talk.entries())


class TestOnDisk:
    """The file beside the log may be deleted, damaged or stale at any time."""

    @pytest.fixture
    def beside(self, path: Path) -> Path:
        with stenolog.open(path) as log:
            log["demo"].extend(turns(25))
            log["demo"].state()
        return path.with_name(f"{path.name}-checkpoints")

    def test_it_is_there_when_the_log_is_opened_again(
        self, path: Path, beside: Path, folded: Callable[[], int]
    ) -> None:
        with stenolog.open(path) as log:
            log["demo"].state()

        assert beside.exists()
        assert folded() == 0

    def test_deleting_it_costs_only_time(self, path: Path, beside: Path, folded: Callable[[], int]) -> None:
        beside.unlink()

        with stenolog.open(path) as log:
            assert log["demo"].state().position == 101
        assert folded() == 101

    @pytest.mark.parametrize(
        "content", [b"", b"no database at all" * 100, b"SQLite format 3\0" + b"x" * 5000]
    )
    def test_a_damaged_one_is_replaced(
        self, path: Path, beside: Path, content: bytes, folded: Callable[[], int]
    ) -> None:
        beside.write_bytes(content)

        with stenolog.open(path) as log:
            log["demo"].state(), log["demo"].state()
            assert folded() in (101, 202)
            log["demo"].state()
            assert folded() == 0

    def test_a_changed_state_is_not_believed(
        self, path: Path, beside: Path, folded: Callable[[], int]
    ) -> None:
        with sqlite3.connect(beside) as connection:
            connection.execute("UPDATE checkpoints SET state = cast('[7,{},[],0,{},[],null,0]' AS BLOB)")
        connection.close()

        with stenolog.open(path) as log:
            assert log["demo"].state() == state_of(log["demo"].entries())

    def test_one_that_belongs_to_another_log_is_not_used(self, path: Path, beside: Path) -> None:
        for each in path.parent.glob("talks.db*"):
            if each != beside:
                each.unlink()
        with stenolog.open(path) as log:
            log["demo"].extend([UserMessage(text=str(n)) for n in range(200)])

            assert log["demo"].state() == state_of(log["demo"].entries())
            assert verify(log).ok

    def test_one_that_another_process_holds_is_done_without(
        self, path: Path, beside: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(checkpoints, "PATIENCE", 0.01)
        holder = sqlite3.connect(beside, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")

        with stenolog.open(path) as log:
            log["demo"].extend(turns(25))
            assert log["demo"].state().position == 201
        holder.close()

    def test_a_place_that_cannot_be_written_is_done_without(self, path: Path) -> None:
        path.with_name(f"{path.name}-checkpoints").mkdir()

        with stenolog.open(path) as log:
            log["demo"].extend(turns(25))
            assert log["demo"].state().position == 101
