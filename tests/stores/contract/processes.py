"""What the processes of the contract do: each a function that a fresh process can be started with."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import Stream
from stenolog.domain.errors import VersionConflictError
from tests.stores.workers import PATIENCE

from .given import claim, fork, item, put
from .stores import Env, application


@contextmanager
def recorder_of(env: Env, barrier: Barrier | None = None) -> Iterator[LogRecorder]:
    """Open the log; with a barrier the block begins in all processes at once."""
    opened = application(env)
    try:
        if barrier is not None:
            barrier.wait(PATIENCE)
        yield opened.recorder
    finally:
        opened.recorder.close()
        opened.close()


def append(number: int, barrier: Barrier, env: Env, count: int) -> list[int]:
    """Append to the one conversation that all processes append to; the positions."""
    with recorder_of(env, barrier) as recorder:
        return [put(recorder, Stream("demo"), f"{number}.{each}")[-1] for each in range(count)]


def append_at_the_head(number: int, barrier: Barrier, env: Env, count: int) -> list[int]:
    """Append at the position that is expected, and look again after each conflict; the positions."""
    found: list[int] = []
    with recorder_of(env, barrier) as recorder:
        while len(found) < count:
            stream = Stream("demo")
            try:
                found += put(recorder, stream, str(number), expected=recorder.head(stream).position)
            except VersionConflictError:
                continue
    return found


def append_the_same(number: int, barrier: Barrier, env: Env, count: int) -> list[int]:
    """Append events with the same ids in all processes; the positions."""
    with recorder_of(env, barrier) as recorder:
        return [
            recorder.append([item(str(each), f"m-{each}")], Stream("demo"), None)[0].position
            for each in range(count)
        ]


def take_claims(number: int, barrier: Barrier, env: Env, count: int) -> list[int]:
    """Take the claims of some effects; the numbers of those that were had."""
    with recorder_of(env, barrier) as recorder:
        stream = Stream("demo")
        head = recorder.head(stream).position
        return [
            each
            for each in range(count)
            if recorder.claims.take(stream, [claim(f"tool 2/{each}", owner=str(number))], head)[0]
        ]


def take_over(number: int, barrier: Barrier, env: Env) -> bool:
    """Take the only claim over, and settle it by an append; whether that was possible."""
    with recorder_of(env, barrier) as recorder:
        stream = Stream("demo", recorder.conversations.find("demo"))
        taken = recorder.claims.take_over(stream, recorder.claims.of(stream)[0], str(number))
        if taken is not None:
            recorder.append([item(f"by {number}")], stream, None, taken.fence)
        return taken is not None


def fork_often(number: int, barrier: Barrier, env: Env, count: int) -> list[str]:
    """Fork the one conversation; the names that the forks got."""
    with recorder_of(env, barrier) as recorder:
        stream = Stream("demo", recorder.conversations.find("demo"))
        return [fork(recorder, stream, 2).name for _ in range(count)]


def open_new(number: int, barrier: Barrier, env: Env) -> int:
    """Open a log that is not there yet, at the same moment as the others; the position of an entry."""
    barrier.wait(PATIENCE)
    with recorder_of(env) as recorder:
        return put(recorder, Stream(f"talk {number}"), "a")[-1]


def append_until_killed(env: Env, sender: Connection) -> None:
    """Append, and write the position of each entry into a pipe once it is acknowledged."""
    with recorder_of(env) as recorder:
        while True:
            os.write(sender.fileno(), b"%d\n" % put(recorder, Stream("demo"), "x" * 100)[-1])


def listen(number: int, barrier: Barrier, env: Env, count: int) -> int:
    """Wait until so many entries are there, told by commits alone; how many there are."""
    enough = threading.Event()
    with recorder_of(env) as recorder:

        def look() -> None:
            if len(recorder.committed(0, limit=count)) >= count:
                enough.set()

        with recorder.listening(look):
            barrier.wait(PATIENCE)
            if number == 0:
                for each in range(count - 1):
                    put(recorder, Stream("demo"), str(each))
            enough.wait(PATIENCE)
        return len(recorder.committed(0, limit=count))
