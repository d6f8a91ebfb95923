"""Kill a program with bots at any time and start it again: no piece is lost or out of order.

Of each chat at most one piece is sent again for every kill.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

import stenolog
from stenolog import UserMessage
from tests.examples.harness import clean

from .standin import StandIn

ROOT = Path(__file__).resolve().parents[2]
CHATS = (1, -2)
PATIENCE = 20.0
PIECES = 8
"""So many have both answers together."""


class Program:
    """The program under test, on a database and a stand-in."""

    def __init__(self, api: StandIn, folder: Path) -> None:
        self.api = api
        self.command = [sys.executable, "-m", "tests.chats.program", str(folder / "talks.db"), api.url]
        self.command += map(str, CHATS)
        self.process = self.start()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def start(self) -> subprocess.Popen[bytes]:
        self.begun = len(self.api.asked)
        self.process = subprocess.Popen(self.command, cwd=ROOT)
        return self.process

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)

    def killed(self) -> None:
        """Expect the program to be killed, and start the next one."""
        assert self.process.wait(PATIENCE) == -signal.SIGKILL
        self.start()

    def ended(self, count: int) -> None:
        """Let it run until so many different pieces have arrived, and stop it in good order."""
        self.until(lambda: sum(map(len, arrived(self.api))) >= count)
        self.until(lambda: "getUpdates" in self.api.asked[self.begun :])  # it is there, and hears SIGTERM
        self.process.terminate()
        assert self.process.wait(PATIENCE) == 0

    def until(self, there: Callable[[], bool]) -> None:
        give_up = time.monotonic() + PATIENCE
        while not there():
            assert time.monotonic() < give_up, arrived(self.api)
            time.sleep(0.01)


def arrived(api: StandIn) -> list[list[str]]:
    """Return the pieces of each chat, each repetition directly behind its piece taken for one."""
    return [[text for text, _ in itertools.groupby(api.texts(chat))] for chat in CHATS]


@cache
def undisturbed() -> list[list[str]]:
    """Return the pieces of each chat where nothing is killed."""
    with StandIn() as api, TemporaryDirectory() as folder:
        greet(api)
        with Program(api, Path(folder)) as program:
            program.ended(PIECES)
        return arrived(api)


def greet(api: StandIn) -> None:
    for chat in CHATS:
        api.say(f"Hello {chat}", chat)


def check(api: StandIn, folder: Path, kills: int) -> None:
    repeated = [len(api.texts(chat)) - len(pieces) for chat, pieces in zip(CHATS, arrived(api), strict=True)]
    with stenolog.open(folder / "talks.db") as log:
        words = [[e for e in log[f"telegram-{chat}"].entries() if _is_words(e)] for chat in CHATS]

    assert arrived(api) == undisturbed()
    assert [count for count in repeated if count > kills] == []
    assert [len(said) for said in words] == [1, 1]
    clean(folder / "talks.db")


def _is_words(entry: stenolog.Entry) -> bool:
    return isinstance(entry.event, UserMessage)


INSTANTS = [
    ("getUpdates", "after", 1),  # told of, and not in the log yet
    ("getUpdates", "before", 2),  # in the log, and not confirmed yet
    ("sendMessage", "before", 1),  # answered, and nothing said yet
    ("sendMessage", "after", 1),  # said, and not noted yet
    ("sendMessage", "after", 2),
    ("sendMessage", "after", 3),
]


@pytest.mark.slow
def test_killed_between_saying_and_noting_and_elsewhere(api: StandIn, tmp_path: Path) -> None:
    remaining = [*INSTANTS]
    calls: list[tuple[str, str]] = []
    guard = threading.Lock()

    def watch(method: str, moment: str) -> None:
        with guard:
            if not remaining or program.process.poll() is not None:  # its last calls, after its death
                return
            calls.append((method, moment))
            if calls.count(remaining[0][:2]) == remaining[0][2]:
                remaining.pop(0)
                calls.clear()
                program.kill()
                program.process.wait()

    api.watch = watch
    greet(api)
    with Program(api, tmp_path) as program:
        for _ in INSTANTS:
            program.killed()
        program.ended(PIECES)

    assert remaining == []
    check(api, tmp_path, len(INSTANTS))


@pytest.mark.slow
def test_killed_at_random_instants(api: StandIn, tmp_path: Path) -> None:
    chance, kills = Random(1), 5
    greet(api)
    with Program(api, tmp_path) as program:
        for _ in range(kills):
            time.sleep(chance.uniform(0.5, 1.2))
            program.kill()
            program.killed()
        program.ended(PIECES)

    check(api, tmp_path, kills)


@pytest.mark.slow
def test_stopped_in_good_order_it_says_nothing_twice(api: StandIn, tmp_path: Path) -> None:
    greet(api)
    with Program(api, tmp_path) as program:
        for count in (1, 5):
            program.ended(count)
            program.start()
        program.ended(PIECES)

    check(api, tmp_path, 0)
