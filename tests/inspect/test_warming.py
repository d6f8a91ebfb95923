"""Work that is done while nobody asks for a page."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog import UserMessage
from stenolog.adapters.conversation.queries.requests.window_cache import STRIDE, windows_of
from stenolog.apps.inspect import background
from stenolog.apps.inspect.background import Warmer
from stenolog.context import Budget
from stenolog.errors import StenologError
from stenolog.projections.requests.incremental.window import Window


def finished(warmer: Warmer) -> None:
    while (thread := warmer._thread) is not None:
        thread.join(timeout=10)


def test_steps_are_done_in_order_once_and_end_where_one_says_so() -> None:
    warmer, done = Warmer(), list[int]()
    for _ in range(2):
        warmer.add("a", [lambda: done.append(1), lambda: done.append(2)])
    warmer.add("b", [lambda: False, lambda: done.append(3)])
    finished(warmer)
    assert done == [1, 2]


def test_a_log_that_is_closed_meanwhile_is_no_error() -> None:
    def fails() -> None:
        raise StenologError("closed")

    warmer, done = Warmer(), list[int]()
    warmer.add("a", [fails, lambda: done.append(1)])
    warmer.add("b", [lambda: done.append(2)])
    finished(warmer)
    assert done == [2]


def test_work_waits_while_pages_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "IDLE_SECONDS", 60.0)
    warmer, done = Warmer(), list[int]()
    warmer.note_question()
    warmer.add("a", [lambda: done.append(1)])
    time.sleep(0.05)
    assert done == []


def test_a_look_at_a_long_conversation_makes_windows_of_its_past(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "IDLE_SECONDS", 0.0)
    others = {*threading.enumerate()}
    with stenolog.open(tmp_path / "talks.db") as log:
        talk = log["demo"]
        talk.join("coder", model="gpt-5.2", policy=Budget(500))
        talk.extend([UserMessage(f"What about {number}?") for number in range(1200)])
        with TestClient(stenolog.inspector(log, token="")) as web:
            assert web.get("/panel/demo", params={"agent": "coder", "at": "5"}).status_code == 200
        for thread in {*threading.enumerate()} - others:
            if thread.name == "stenolog-warming":
                thread.join()
        assert len(windows_of(log)) >= 1024 // STRIDE


def test_a_page_that_is_loaded_again_and_again_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "IDLE_SECONDS", 60.0)  # the windows of the past would be made meanwhile
    taken: Counter[int] = Counter()
    take = Window.take

    def counted(window: Window, entry: stenolog.Entry) -> object:
        taken[entry.position] += 1
        return take(window, entry)

    monkeypatch.setattr(Window, "take", counted)
    with stenolog.open(tmp_path / "talks.db") as log:
        talk = log["demo"]
        talk.join("coder", model="gpt-5.2", policy=Budget(500))
        talk.extend([UserMessage(f"What about {number}?") for number in range(600)])
        app, all_at_once = stenolog.inspector(log, token=""), Barrier(4)

        def asked(_: int) -> int:
            with TestClient(app) as web:
                all_at_once.wait()
                return web.get("/panel/demo", params={"agent": "coder", "at": "600"}).status_code

        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(asked, range(4))) == [200] * 4
    assert max(taken.values()) == 1
