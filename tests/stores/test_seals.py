"""What stands beside the log is sealed with a key in the log: without it nobody changes a request."""

from __future__ import annotations

import sqlite3
from hashlib import sha256
from pathlib import Path

import pytest

import stenolog
from stenolog import AgentCard, AssistantMessage, ModeSwitch, UserMessage
from stenolog.adapters.conversation.queries.folds import STATE
from stenolog.adapters.store.sidecar import checkpoints
from stenolog.adapters.store.sqlite.file_safety import Seals
from stenolog.domain.parts import ToolCall
from stenolog.domain.values import Tool

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
