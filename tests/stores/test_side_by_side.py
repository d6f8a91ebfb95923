"""Work on a log by several processes finds what one finds, in the same order."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog import Log, UserMessage
from stenolog.adapters.conversation.log import open as open_log
from stenolog.adapters.conversation.verifying import requests
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.conversation.verifying.parallel import Chunk, cores, run_in_processes, shares
from stenolog.adapters.conversation.verifying.requests import check, prove
from stenolog.domain.errors import ConversationNotFoundError, OperationalError
from tests.requests.sessions import conversation, session

HEADS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 60), max_size=8)


@given(heads=HEADS, size=st.integers(1, 40), split=st.booleans())
def test_every_position_is_in_one_share_in_order(heads: dict[str, int], size: int, split: bool) -> None:
    tasks = list(shares(heads, size, split=split))

    told = [(share.conversation, at) for task in tasks for share in task for at in share.positions]
    assert told == [(name, at) for name, last in heads.items() for at in range(1, last + 1)]
    assert list(dict.fromkeys(share.conversation for task in tasks for share in task)) == [*heads]
    for task in tasks:
        assert len(task) == 1 or sum(len(share.positions) for share in task) <= size
        assert not split or all(len(share.positions) <= size for share in task)


def test_a_conversation_that_is_not_split_is_one_share() -> None:
    assert list(shares({"a": 90, "b": 3}, 10, split=False)) == [
        [Chunk("a", range(1, 91))],
        [Chunk("b", range(1, 4))],
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a log with several conversations, a fork, an edit nobody should make, and receipts."""
    with open_log(tmp_path / "talks.db") as log:
        log["long"].extend(session(1, 120))
        for number in range(3):
            log[f"short {number}"].extend(conversation(number, 3))
        log["short 1"].fork(name="fork").append(UserMessage(text="otherwise"))
        with log.datastore.writing() as connection:
            connection.execute(
                "UPDATE stored_events SET state = replace(state, 'User', 'user') WHERE originator_version = 7"
            )
    return tmp_path / "talks.db"


def who(log: Log, task: str) -> tuple[str, int, int]:
    """Return the task, how long the conversation is, and the process that looked."""
    return task, log[task].position, os.getpid()


def refused(log: Log, task: str) -> None:
    raise ConversationNotFoundError(f"{task!r}: expected another")


def ended(log: Log, task: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_two_processes_find_what_one_finds_in_the_same_order(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "SIZE", 50)
    monkeypatch.setattr(requests, "PROOF_SIZE", 20)
    with open_log(path) as log:
        names = log.names(archived=True)

        def found(jobs: int) -> Sequence[object]:
            checked = check(log, names, apis=["openai-chat"], all_prefixes=True, jobs=jobs)
            return [*checked], verify(log, jobs=jobs), [*prove(log, jobs=jobs)]

        assert repr(found(2)) == repr(found(1))  # errors are equal to themselves alone
        assert not verify(log).ok


def test_each_task_is_done_elsewhere_and_what_it_finds_comes_in_order(path: Path) -> None:
    with open_log(path) as log:
        names = log.names() * 3
        found = list(run_in_processes(log, who, names, 2))

        assert [(name, last) for name, last, _ in found] == [(name, log[name].position) for name in names]
        assert os.getpid() not in {process for _, _, process in found}
        with pytest.raises(ConversationNotFoundError, match="'long': expected another"):
            list(run_in_processes(log, refused, ["long"], 2))
        with pytest.raises(OperationalError, match="was ended before it was done"):
            list(run_in_processes(log, ended, ["long"], 2))


def test_a_position_that_is_no_number_any_more_stops_nobody(path: Path) -> None:
    with open_log(path) as log:
        with log.datastore.writing() as connection:
            (last,) = connection.execute("SELECT max(rowid) FROM stored_events").fetchone()
            connection.execute("UPDATE stored_events SET originator_version = 'x' WHERE rowid = ?", (last,))

        assert not verify(log, jobs=1).ok
        assert len(list(prove(log))) == len(log.names())
        assert [one.conversation for one in check(log, log.names(), apis=["plain"])] == log.names()


def test_a_log_in_memory_is_worked_on_here() -> None:
    with open_log(":memory:") as log:
        log["talk"].extend(session(1, 4))

        assert list(run_in_processes(log, who, ["talk"], 4)) == [("talk", 4, os.getpid())]
        assert verify(log, jobs=4).ok
        assert [one.requests for one in check(log, ["talk"], apis=["plain"], jobs=4)] == [3]


def test_what_is_soon_done_is_done_here(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []

    def counted(log: Log, work: object, tasks: object, jobs: int) -> list[list[object]]:
        used.append(jobs)
        return []

    monkeypatch.setattr(requests, "run_in_processes", counted)
    with open_log(path) as log:
        for least in (10**9, 0):
            monkeypatch.setattr(requests, "WORTH", least)
            monkeypatch.setattr(requests, "PROOF_WORTH", least)
            assert [*check(log, log.names(), all_prefixes=True, jobs=None), *prove(log, jobs=None)] == []

    assert used == [1, 1, cores(), cores()]
