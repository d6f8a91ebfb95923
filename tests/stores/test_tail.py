"""Following a log live, within a process and across processes."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from threading import Thread

import pytest

import stenolog
from stenolog import Conversation, Entry, Log, UserMessage
from stenolog.adapters.store.contract.notifier import CommitNotifier
from tests.stores.conftest import said

WAIT = 20.0
"""Seconds that no test here should ever need."""


def positions(entries: Iterator[Entry], count: int) -> list[int]:
    return [entry.position for entry in islice(entries, count)]


def test_a_tail_gives_what_is_there_and_then_what_comes(conversation: Conversation) -> None:
    said(conversation, "a")
    tail = conversation.tail(after=0, timeout=WAIT)

    assert positions(tail, 2) == [1, 2]
    said(conversation, "b", "c")
    assert positions(tail, 2) == [3, 4]


def test_without_a_position_it_begins_at_the_head_of_when_it_was_asked_for(
    conversation: Conversation,
) -> None:
    said(conversation, "a")
    tail = conversation.tail(timeout=WAIT)
    said(conversation, "b")

    assert positions(tail, 1) == [3]


def test_it_ends_when_nothing_comes_for_the_timeout(conversation: Conversation) -> None:
    said(conversation, "a")

    assert [entry.position for entry in conversation.tail(after=0, timeout=0.01)] == [1, 2]


def test_other_conversations_do_not_keep_it_going(log: Log, conversation: Conversation) -> None:
    said(conversation, "a")
    tail = conversation.tail(timeout=0.2)

    def chatter() -> None:
        for number in range(100):
            said(log["other"], str(number))

    with ThreadPoolExecutor() as pool:
        pool.submit(chatter)
        assert list(tail) == []


def test_many_tails_all_see_everything(conversation: Conversation) -> None:
    said(conversation, "a")
    tails = [conversation.tail(timeout=WAIT) for _ in range(8)]

    with ThreadPoolExecutor(8) as pool:
        following = [pool.submit(positions, tail, 20) for tail in tails]
        for number in range(20):
            said(conversation, str(number))
        assert [future.result() for future in following] == [list(range(3, 23))] * 8


def test_it_wakes_for_an_append_of_another_process(path: Path) -> None:
    append = (
        "import sys, stenolog\n"
        "with stenolog.open(sys.argv[1]) as log:\n"
        "    log['demo'].append(stenolog.UserMessage(text='from afar'))\n"
    )
    with stenolog.open(path) as log:
        said(log["demo"], "a")
        tail = log["demo"].tail(timeout=WAIT)
        with subprocess.Popen([sys.executable, "-c", append, str(path)]):
            entry = next(tail)

    assert entry.event == UserMessage(text="from afar")


def test_the_whole_log_is_followed_in_the_order_of_its_commits(log: Log) -> None:
    said(log["a"], "before")
    tail = log.tail(timeout=WAIT)
    said(log["b"], "1")
    said(log["a"], "2")
    log["a"].rename("c")
    said(log["b"], "3")

    seen = [(entry.conversation, entry.position) for entry in islice(tail, 4)]
    assert seen == [("b", 1), ("b", 2), ("c", 3), ("b", 3)]


def test_a_fork_is_followed_through_what_it_inherits(conversation: Conversation) -> None:
    said(conversation, "a", "b")
    fork = conversation.fork(after=2)

    assert positions(fork.tail(after=0, timeout=WAIT), 3) == [1, 2, 3]


def test_it_ends_when_the_log_is_closed(path: Path) -> None:
    log = stenolog.open(path)
    said(log["demo"], "a")
    seen: list[int] = []

    def follow() -> None:
        seen.extend(entry.position for entry in log["demo"].tail(after=0))

    thread = Thread(target=follow)
    thread.start()
    while len(seen) < 2 and thread.is_alive():
        pass
    log.close()
    thread.join(WAIT)

    assert not thread.is_alive()
    assert seen == [1, 2]


def test_nobody_looks_for_other_processes_once_nobody_listens(path: Path) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "a")
        tail = log["demo"].tail(after=0, timeout=WAIT)
        next(tail)
        assert log.datastore.commit_notifier._stop is not None
        tail.close()  # type: ignore[attr-defined]

        assert log.datastore.commit_notifier._stop is None


def test_it_ends_quietly_if_its_log_is_closed_and_removed_as_it_begins(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = stenolog.open(path)
    said(log["demo"], "a")
    versions = log.datastore.commit_notifier._versions
    assert versions is not None
    looked: list[int] = []

    def late() -> Generator[int, None, None]:
        log.close()
        shutil.rmtree(path.parent)
        for version in versions():
            looked.append(version)
            yield version

    monkeypatch.setattr(log.datastore.commit_notifier, "_versions", late)
    with log.recorder.listening(lambda: None):
        for thread in [each for each in threading.enumerate() if each.name == "stenolog-tail"]:
            thread.join(WAIT)

    assert looked == [-1]


def test_a_listener_that_fails_does_not_fail_the_append() -> None:
    def gone() -> None:
        raise RuntimeError("the event loop is closed")

    quiet = CommitNotifier(None)
    with quiet.subscribe(gone):
        quiet.notify()
