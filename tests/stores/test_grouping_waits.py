"""Writers in a group: nobody waits for ever, whatever becomes of the others."""

from __future__ import annotations

import signal
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import Conversation, Entry, Log, NewEntry, UserMessage
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.store.sqlite import file_locks
from stenolog.adapters.store.sqlite.file_locks import FileLock
from stenolog.adapters.store.sqlite.turn.group_commit import PendingJob
from stenolog.errors import StoreError, StoreTimeoutError
from tests.stores.conftest import said, texts
from tests.stores.together import at_once, in_groups, outcome, sealing
from tests.stores.workers import PATIENCE

HI = UserMessage(text="hi")


def test_longer_than_the_deadline_nobody_waits_for_another_process(path: Path) -> None:
    with stenolog.open(path, deadline=0.2) as log:
        conversations = [log[str(number)] for number in range(6)]
        for conversation in conversations:
            said(conversation, "a")
        holder = FileLock(f"{path}-lock")
        assert holder.acquire(0)
        with ThreadPoolExecutor(6) as pool:
            outcomes = list(
                pool.map(lambda conversation: outcome(partial(conversation.append, HI)), conversations)
            )
        holder.close()

        assert [kind for kind, _ in outcomes] == [StoreTimeoutError] * 6
        assert [conversation.append(HI).position for conversation in conversations] == [3] * 6


def test_longer_than_the_deadline_nobody_waits_for_another_program(path: Path) -> None:
    with stenolog.open(path, deadline=0.1) as log, closing(sqlite3.connect(path)) as program:
        conversations = [log[str(number)] for number in range(6)]
        for conversation in conversations:
            said(conversation, "a")
        statements: list[str] = []
        log.datastore.writer.set_trace_callback(statements.append)
        program.execute("BEGIN IMMEDIATE")
        outcomes = at_once(log, *(partial(conversation.append, HI) for conversation in conversations))
        program.rollback()

        assert [kind for kind, _ in outcomes] == [StoreTimeoutError] * 6
        assert [one.split()[0] for one in statements if one != "ROLLBACK"] == ["INSERT"]
        assert [conversation.append(HI).position for conversation in conversations] == [3] * 6


def test_those_who_wait_for_the_same_wait_together(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with stenolog.open(path, deadline=0.3) as log:
        waits: list[str] = []
        busy = log.datastore.timed_out

        def counted() -> StoreTimeoutError:
            waits.append("one more")
            return busy()

        monkeypatch.setattr(log.datastore, "timed_out", counted)
        with ThreadPoolExecutor(30) as pool, log.datastore.writing():
            asked = [pool.submit(outcome, partial(log[str(n)].append, HI)) for n in range(30)]
            assert {future.result(PATIENCE)[0] for future in asked} == {StoreTimeoutError}
        assert len(waits) < 30


def test_who_is_woken_by_a_group_may_append_too(log: Log) -> None:
    conversations = [log[str(number)] for number in range(3)]
    echoes = iter(["echo"])

    def echo() -> None:
        if threading.current_thread().name == "stenolog-writer":
            for text in echoes:
                said(conversations[0], text)

    with log.datastore.commit_notifier.subscribe(echo):
        at_once(log, *(partial(conversation.append, HI) for conversation in conversations))
    assert [conversation.position for conversation in conversations] == [3, 2, 2]


def test_a_hook_that_appends_is_refused_and_holds_up_nobody(path: Path) -> None:
    with stenolog.open(path, deadline=0.05) as log:
        conversation = log["demo"]
        said(conversation, "a")
        hook = in_groups(lambda: said(conversation, "within its own transaction"))
        log.datastore.commit_hooks.append(hook)
        outcomes = at_once(log, partial(conversation.append, HI), partial(conversation.append, HI))
        log.datastore.commit_hooks.remove(hook)

        assert [kind for kind, _ in outcomes] == [StoreTimeoutError] * 2
        assert conversation.append(HI).position == 3


def refused(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for an append to "demo" that takes a thread, while there is none to be had."""

    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    waiting = PendingJob[Any](sealing(log["demo"], [NewEntry(HI)], None), lambda: None)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none_left)
        with pytest.raises(StoreError, match="can't start new thread"):
            log.datastore.group.submit(waiting)


def test_what_is_refused_for_want_of_a_thread_is_not_written_later(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = log["demo"]
    said(conversation, "a")
    refused(log, monkeypatch)
    said(conversation, "b")
    at_once(log, partial(said, conversation, "c"))

    assert texts(conversation) == ["a", "b", "c"]


def test_a_log_whose_thread_never_began_can_be_closed(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(log, monkeypatch)
    log.close()

    assert log.datastore.closed


def test_when_the_log_is_closed_everybody_is_told(path: Path) -> None:
    log = stenolog.open(path)
    conversations = [log[str(number)] for number in range(8)]
    begun = threading.Barrier(9)

    def work(conversation: Conversation) -> int:
        last = 0
        begun.wait(PATIENCE)
        while isinstance(entry := outcome(partial(conversation.append, HI)), Entry):
            last = entry.position
        assert entry == (StoreError, f"{path}: the log was closed")
        return last

    with ThreadPoolExecutor(8) as pool:
        last = [pool.submit(work, conversation) for conversation in conversations]
        begun.wait(PATIENCE)
        while conversations[-1].position < 10:
            pass
        log.close()
    assert log.datastore.group._thread is None
    with stenolog.open(path) as again:
        assert [again[conversation.name].position for conversation in conversations] == [
            each.result(PATIENCE) for each in last
        ]


def test_who_is_interrupted_while_he_waits_takes_nobody_with_him(log: Log) -> None:
    assert threading.current_thread() is threading.main_thread()
    conversation, other = log["demo"], log["other"]
    release, submit = threading.Event(), log.datastore.group.submit

    def hold() -> None:
        with log.datastore.writing():
            holding.set()
            assert release.wait(PATIENCE)

    def interrupted(waiting: PendingJob[Any]) -> None:
        submit(waiting)
        signal.raise_signal(signal.SIGINT)

    holding = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        held = pool.submit(hold)
        assert holding.wait(PATIENCE)
        log.datastore.group.submit = interrupted  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            conversation.append(HI)
        log.datastore.group.submit = submit  # type: ignore[method-assign]
        waits = pool.submit(other.append, HI)
        release.set()
        assert waits.result(PATIENCE).position == 2
        held.result(PATIENCE)
    said(conversation, "b")
    assert verify(log).ok


def test_who_is_interrupted_while_he_writes_leaves_nothing_behind(log: Log) -> None:
    conversation = log["demo"]
    said(conversation, "a")
    log.datastore.commit_hooks.append(lambda _: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        conversation.append(HI)
    log.datastore.commit_hooks.clear()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(conversation.append, HI).result(PATIENCE).position == 3


def test_a_lock_that_comes_to_somebody_interrupted_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            raise KeyboardInterrupt

    one, other, third = (FileLock(str(tmp_path / "lock")) for _ in range(3))
    assert one.acquire(0)
    with monkeypatch.context() as patched:
        patched.setattr(file_locks, "Event", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            other.acquire(PATIENCE)
    one.release()

    assert third.acquire(PATIENCE)
    for lock in (one, other, third):
        lock.close()
