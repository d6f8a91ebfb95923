"""Checkpoints: kept beside the log, equal to the fold from zero, and never needed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from hashlib import sha512
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stenolog
from stenolog import (
    AssistantMessage,
    Conversation,
    CorruptLog,
    Entry,
    Event,
    Fold,
    Log,
    ToolCall,
    ToolResult,
    Unknown,
    UserMessage,
)
from stenolog.adapters import keeping
from stenolog.adapters.keeping import SETTINGS, STATE, kept
from stenolog.adapters.stores import checkpoints, reading
from stenolog.adapters.stores.checkpoints import Run
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


class TestKinds:
    """A fold that looks at some kinds of event gives the same, and the others are not read."""

    heard = Fold("heard", 0, lambda sum, entry: sum * 31 + entry.position, kinds=(UserMessage, ToolResult))

    @given(st.lists(st.sampled_from([*examples().values(), *turns(1)]), max_size=60), st.integers(0, 60))
    @settings(max_examples=15, derandomize=True, deadline=None)
    def test_it_is_the_fold_of_the_entries_of_those_kinds(self, events: list[Event], upto: int) -> None:
        with stenolog.open(":memory:") as log:
            talk = log["demo"]
            log.blobs.put(b"test")
            for event in events:
                talk.append(event, expected=talk.position)
            only = [entry for entry in talk.entries() if isinstance(entry.event, self.heard.kinds)]

            assert self.heard(talk.entries()) == self.heard(only)
            assert list(self.heard.steps(talk.entries()))[-1] == self.heard(only)
            for at in (None, upto, upto // 2):
                assert talk.fold(kept(self.heard, int), at) == self.heard(talk.entries(upto=at))

    def test_the_payloads_of_others_are_not_decoded(
        self, talk: Conversation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        talk.extend(turns(50))
        topics: list[str] = []
        decoders = reading.DECODERS

        class Watched(dict[str, Callable[[bytes], Event]]):
            def __missing__(self, topic: str) -> Callable[[bytes], Event]:
                topics.append(topic)
                return decoders[topic]

        monkeypatch.setattr(reading, "DECODERS", Watched())
        assert talk.settings() == settings_of(talk.entries())
        assert set(topics[:100]) >= {"mode_switch@1"}
        assert talk.fold(kept(self.heard, int)) == self.heard(talk.entries())

    def test_a_stretch_of_others_is_not_read_again(self, talk: Conversation) -> None:
        talk.extend(turns(100))
        talk.settings()

        (run,) = talk.log.checkpoints.runs(talk.stream.key or 0, "settings", SETTINGS.version)
        assert (run.first, run.last) == (1, 401)

    def test_a_missing_position_is_found(self, talk: Conversation) -> None:
        talk.extend(turns(50))
        with talk.log.datastore.writing() as connection:
            connection.execute("DELETE FROM stored_events WHERE originator_version = 77")

        with pytest.raises(CorruptLog, match="expected the positions 1 to 201, found 200 of them"):
            talk.settings()

    def test_folds_of_several_kinds_go_on_by_themselves(self, talk: Conversation) -> None:
        talk.extend(turns(20))
        talk.settings()
        talk.extend(turns(20))

        both = keeping.together(talk, (SETTINGS, kept(self.heard, int)))
        assert both == [settings_of(talk.entries()), self.heard(talk.entries())]

    def test_an_unknown_kind_may_be_looked_at(self, talk: Conversation) -> None:
        strange = Fold("strange", 0, lambda count, entry: count + 1, kinds=(Unknown,))
        talk.append(Unknown(topic="smell@1", payload=b"{}"))
        talk.extend(turns(3))

        assert talk.fold(kept(strange, int)) == 1

    def test_a_fork_reads_what_it_inherits(self, talk: Conversation) -> None:
        talk.extend(turns(20))
        fork = talk.fork(after=40)
        fork.extend(turns(5))

        assert fork.fold(kept(self.heard, int)) == self.heard(fork.entries())
        assert fork.settings() == settings_of(fork.entries())


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

    @pytest.mark.parametrize(
        "change",
        [
            "state = cast('[7,{},[],0,{},[],null,0]' AS BLOB)",
            "past = cast('x' AS BLOB)",
            "past = NULL",
            "changed = changed - 1",
            "last = last + 1",
            "first = first + 1",
        ],
    )
    def test_a_changed_one_is_not_believed(self, path: Path, beside: Path, change: str) -> None:
        with sqlite3.connect(beside) as connection:
            connection.execute(f"UPDATE checkpoints SET {change}")
        connection.close()

        with stenolog.open(path) as log:
            talk = log["demo"]
            for at in (1, 2, 33, 64, 65, 100, 101, None):
                assert talk.state(at) == state_of(talk.entries(upto=at))
            assert verify(log).ok

    def test_one_of_an_earlier_layout_begins_anew(
        self, path: Path, beside: Path, folded: Callable[[], int]
    ) -> None:
        with sqlite3.connect(beside) as connection:
            connection.execute("DROP TABLE checkpoints")
            connection.execute("CREATE TABLE checkpoints (stream INTEGER, fold TEXT, slot INTEGER)")
            connection.execute("PRAGMA user_version = 0")
        connection.close()

        with stenolog.open(path) as log:
            log["demo"].state()
            assert folded() == 101
            log["demo"].state()
            assert folded() == 0

    def test_a_state_that_is_not_what_the_fold_gives_is_found(self, path: Path, beside: Path) -> None:
        """With the sum that makes it whole, in the midst of a run."""
        with stenolog.open(path) as log:
            talk = log["demo"]
            key, digest = talk.stream.key or 0, next(talk.entries(after=49)).digest
            wrong = STATE.dump(talk.state(upto=30)._replace(anomalies=7))
            right = STATE.dump(talk.state(upto=50))
            run = Run(50, bytes.fromhex(digest), ((30, wrong), (31, right)))
            log.checkpoints.put(key, "state", STATE.version, run)

            (problem,) = verify(log).problems
            assert (problem.code, problem.position, problem.pointer) == ("checkpoint", 30, "/state/7")

    def test_one_that_belongs_to_another_log_is_not_used(
        self, path: Path, beside: Path, folded: Callable[[], int]
    ) -> None:
        for each in path.parent.glob("talks.db*"):
            if each != beside:
                each.unlink()
        with stenolog.open(path) as log:
            log["demo"].extend([UserMessage(text=str(n)) for n in range(200)])

            assert verify(log).ok
            assert log["demo"].state() == state_of(log["demo"].entries())
            folded()
            for at in (None, 100, 50, 33):
                log["demo"].state(at)
            assert folded() == 0
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
