"""The file beside the log may be deleted, damaged or stale at any time."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

import stenolog
from stenolog import AgentCard, AssistantMessage, ModeSwitch, UserMessage
from stenolog.adapters.conversation.queries.folds import STATE
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.store.sidecar import checkpoints
from stenolog.adapters.store.sidecar import file as side_file
from stenolog.adapters.store.sidecar.checkpoints import CheckpointRun, Checkpoints
from stenolog.adapters.store.sqlite.file_safety import Seals
from stenolog.domain.lanes.step import fold as state_of
from stenolog.domain.parts import ToolCall
from stenolog.domain.values import Tool
from tests.stores.conftest import turns


@pytest.fixture
def beside(path: Path) -> Path:
    with stenolog.open(path) as log:
        log["demo"].extend(turns(25))
        log["demo"].state()
    return path.with_name(f"{path.name}-checkpoints")


def test_it_is_there_when_the_log_is_opened_again(
    path: Path, beside: Path, folded: Callable[[], int]
) -> None:
    with stenolog.open(path) as log:
        log["demo"].state()

    assert beside.exists()
    assert folded() == 0


def test_deleting_it_costs_only_time(path: Path, beside: Path, folded: Callable[[], int]) -> None:
    beside.unlink()

    with stenolog.open(path) as log:
        assert log["demo"].state().position == 101
    assert folded() == 101


@pytest.mark.parametrize("content", [b"", b"no database at all" * 100, b"SQLite format 3\0" + b"x" * 5000])
def test_a_damaged_one_is_replaced(
    path: Path, beside: Path, content: bytes, folded: Callable[[], int]
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
        "size = 8",
        "changed = changed - 1",
        "last = last + 1",
        "first = first + 1",
    ],
)
def test_a_changed_one_is_not_believed(path: Path, beside: Path, change: str) -> None:
    with sqlite3.connect(beside) as connection:
        connection.execute(f"UPDATE checkpoints SET {change}")
    connection.close()

    with stenolog.open(path) as log:
        conversation = log["demo"]
        for at in (1, 2, 33, 64, 65, 100, 101, None):
            assert conversation.state(at) == state_of(conversation.entries(at=at))
        assert verify(log).ok


def test_one_of_an_earlier_layout_begins_anew(path: Path, beside: Path, folded: Callable[[], int]) -> None:
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


def test_a_state_that_is_not_what_the_fold_gives_is_found(path: Path, beside: Path) -> None:
    """With the sum that makes it whole, in the midst of a run."""
    with stenolog.open(path) as log:
        conversation = log["demo"]
        key, digest = conversation.stream.key or 0, next(conversation.entries(after=49)).digest
        wrong = STATE.dump(conversation.state(at=30)._replace(anomalies=7))
        right = STATE.dump(conversation.state(at=50))
        run = CheckpointRun(50, bytes.fromhex(digest), ((30, wrong), (31, right)))
        log.checkpoints.put(key, "state", STATE.version, run)

        (problem,) = verify(log).problems
        assert (problem.code, problem.position, problem.pointer) == ("checkpoint", 30, "/state/8")


def test_one_that_belongs_to_another_log_is_not_used(
    path: Path, beside: Path, folded: Callable[[], int]
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
    path: Path, beside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_file, "PATIENCE", 0.01)
    holder = sqlite3.connect(beside, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")

    with stenolog.open(path) as log:
        log["demo"].extend(turns(25))
        assert log["demo"].state().position == 201
    holder.close()


def test_who_is_interrupted_while_he_writes_keeps_nobody_else_waiting(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = Checkpoints(str(path)), Checkpoints(str(path))
    one.put(1, "f", "v", CheckpointRun(1, b"d", ((1, b"s"),)))
    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "interval_for", lambda _: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            one.put(1, "f", "v", CheckpointRun(40, b"d", ((40, b"t"),)))
    other.put(1, "f", "v", CheckpointRun(80, b"d", ((80, b"u"),)))

    assert [run.last for run in one.runs(1, "f", "v")] == [1, 80]
    one.close()
    other.close()


def test_of_a_damaged_one_nothing_is_left(path: Path) -> None:
    one, other = Checkpoints(str(path)), Checkpoints(str(path))
    for each in (one, other):  # whoever has it open, keeps what is written ahead
        each.put(1, "f", "v", CheckpointRun(1, b"d", ((1, b"s"),)))
    with Path(one.path).open("r+b") as file:
        file.write(b"no database at all" * 1000)
    Path(f"{one.path}-wal").write_bytes(b"")
    one.close()
    assert one.get(1, "f", "v", 1) is None

    assert list(path.parent.glob(f"{path.name}-*")) == []
    other.close()


def test_a_place_that_cannot_be_written_is_done_without(path: Path) -> None:
    path.with_name(f"{path.name}-checkpoints").mkdir()

    with stenolog.open(path) as log:
        log["demo"].extend(turns(25))
        assert log["demo"].state().position == 101


# What stands beside the log is sealed with a key in the log: without it nobody changes a request.


TURN = (UserMessage(text="transfer to ALICE"), AssistantMessage(agent="a", text="done"))


def waiting(path: Path) -> tuple[int, bytes, bytes]:
    """Leave a log with a call that waits for approval; where it stands, and a state in which it need not."""
    with stenolog.open(path) as log:
        conversation = log["demo"]
        card = AgentCard(tools=(Tool(name="transfer", approval=True),))
        conversation.append(ModeSwitch(cards={"a": card}, joins=("a",)), expected=0)
        conversation.append(UserMessage(text="pay"))
        conversation.append(AssistantMessage(agent="a", tool_calls=(ToolCall(id="c", name="transfer"),)))
        state = conversation.state()
        assert state.lane("a").status == "awaiting_approval"
        calls = tuple(call._replace(approval=False) for call in state.lane("a").calls)
        lane = state.lane("a")._replace(status="awaiting_tools", calls=calls)
        forged = STATE.dump(state._replace(lanes={**state.lanes, "a": lane}))
        return state.position, bytes.fromhex(conversation.digest), forged


def test_a_forged_checkpoint_approves_nothing(path: Path) -> None:
    position, digest, forged = waiting(path)
    row = checkpoints._row(checkpoints.CheckpointRun(position, digest, ((position, forged),)))
    first, last, _, changed, state, size, past = row
    head = b"%d\n%d\n%d\n%d\n%d\n%d\n" % (first, last, changed, size or 0, len(digest), len(past))
    stranger = checkpoints._sum(Seals(), checkpoints._key(1, STATE.fold.name, STATE.version), *row)
    for seal in (sha256(b"".join((head, digest, past, state))).digest(), stranger, b"", None, "x"):
        connection = sqlite3.connect(f"{path}-checkpoints")
        connection.execute(checkpoints.PUT, (1, STATE.fold.name, STATE.version, *row, seal))
        connection.commit()
        connection.close()
        with stenolog.open(path) as log:
            assert log["demo"].state().lane("a").status == "awaiting_approval"


def test_a_checkpoint_moved_to_another_place_is_not_used(path: Path) -> None:
    with stenolog.open(path) as log:
        log["demo"].extend(TURN * 40)
        log["demo"].state()
        (run,) = [*log.checkpoints.runs(1, STATE.fold.name, STATE.version)][:1]
        log.checkpoints.put(1, "other", STATE.version, run)
        assert log.checkpoints.get(1, "other", STATE.version, run.last)
        move = "UPDATE checkpoints SET stream = 2 WHERE fold = 'other'"
        log.checkpoints.work(lambda connection: connection.execute(move).rowcount)
        assert log.checkpoints.get(2, "other", STATE.version, run.last) is None


@pytest.mark.parametrize(
    "edit", ["DELETE FROM secret", "UPDATE secret SET bytes = x''", "UPDATE secret SET bytes = 'text'"]
)
def test_a_log_whose_key_is_gone_takes_nothing_from_beside_it(path: Path, edit: str) -> None:
    position, digest, forged = waiting(path)
    row = checkpoints._row(checkpoints.CheckpointRun(position, digest, ((position, forged),)))
    connection = sqlite3.connect(path)
    connection.execute(edit)
    connection.commit()
    connection.close()
    seal = checkpoints._sum(Seals(), checkpoints._key(1, STATE.fold.name, STATE.version), *row)
    connection = sqlite3.connect(f"{path}-checkpoints")
    connection.execute(checkpoints.PUT, (1, STATE.fold.name, STATE.version, *row, seal))
    connection.commit()
    connection.close()

    with stenolog.open(path) as log:
        assert log["demo"].state().lane("a").status == "awaiting_approval"
