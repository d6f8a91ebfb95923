"""What the processes of the tests do: each a function that a fresh process can be started with."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier
from random import Random
from typing import Any
from unittest.mock import patch

import stenolog
from stenolog import UserMessage
from stenolog.adapters.store.sqlite import copies
from stenolog.adapters.store.sqlite.file_locks import FileLock
from stenolog.errors import StoreTimeoutError
from stenolog.parts import ImagePart

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["stenolog", "tests.stores.workers"])
PATIENCE = 60.0
"""Seconds after which a process that should long have ended is given up."""


def started(work: Callable[..., None], *args: Any) -> BaseProcess:
    process = CONTEXT.Process(target=work, args=args, daemon=True)
    process.start()
    return process


def run(count: int, work: Callable[..., Any], *args: Any) -> list[Any]:
    """`work(number, barrier, *args)` in so many processes at once; what each of them gave back."""
    barrier = CONTEXT.Barrier(count)
    pipes = [CONTEXT.Pipe(duplex=False) for _ in range(count)]
    processes = [
        started(_reporting, sender, work, number, barrier, *args) for number, (_, sender) in enumerate(pipes)
    ]
    answers = [receiver.recv() if receiver.poll(PATIENCE) else "no answer" for receiver, _ in pipes]
    for process in processes:
        process.join(PATIENCE)
    return answers


def _reporting(sender: Connection, work: Callable[..., Any], *args: Any) -> None:
    try:
        sender.send(work(*args))
    except BaseException as error:
        sender.send(f"{type(error).__name__}: {error}")


def append_until_killed(path: str, sender: Connection) -> None:
    """Append alone and in batches, and tell of each entry once it is acknowledged."""
    with stenolog.open(path) as log:
        conversation = log["demo"]
        while True:
            entries = [conversation.append(UserMessage(text="one"))]
            entries += conversation.extend([UserMessage(text="of three" * 50)] * 3)
            os.write(sender.fileno(), b"".join(f"{e.position} {e.digest}\n".encode() for e in entries))


def append_together_until_killed(path: str, sender: Connection) -> None:
    """Append in sixteen threads at once, each with a conversation of its own, until killed."""
    with stenolog.open(path) as log:

        def work(number: int) -> None:
            conversation = log[str(number)]
            while True:
                entry = conversation.append(UserMessage(text="together"))
                os.write(sender.fileno(), f"{number} {entry.position} {entry.digest}\n".encode())

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(work, range(16)))


def back_up_for_ever(path: str, target: str, sender: Connection) -> None:
    """Copy a log into a file that never takes its name; tell when everything is in it."""

    def waiting(*_: object) -> None:
        sender.send("copied")
        time.sleep(PATIENCE)

    with stenolog.open(path) as log, patch.object(copies, "publish", waiting):
        log.backup(target)


def restore_and_die(path: str, backup: str, steps: int) -> None:
    """Restore a backup, and be killed before the so-many-th change of a file's name."""
    left = [steps]

    def counting(change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*given: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return change(*given, **named)

        return changed

    with ExitStack() as patches:
        for name in ("rename", "replace", "unlink", "truncate"):
            patches.enter_context(patch.object(os, name, counting(getattr(os, name))))
        stenolog.maintenance.restore(backup, path)


def crash_after(path: str, texts: list[str]) -> None:
    """Say something, and be killed before the write-ahead log is checkpointed."""
    log = stenolog.open(path)
    log["demo"].extend([UserMessage(text=text) for text in texts])
    os.kill(os.getpid(), signal.SIGKILL)


def open_and_say(number: int, barrier: Barrier, path: str, times: int) -> int:
    """Open the log, say something and close it, again and again; how often that was possible."""
    done = 0
    barrier.wait(PATIENCE)
    for _ in range(times):
        with suppress(StoreTimeoutError), stenolog.open(path) as log:
            entry = log[str(number)].append(UserMessage(text="x"))
            done += 1
            assert log[str(number)].position == entry.position
    return done


def restore_often(path: str, backup: str, times: int) -> None:
    """Restore a backup whenever nobody has the log open."""
    for _ in range(times):
        with suppress(StoreTimeoutError):
            stenolog.maintenance.restore(backup, path)


def try_lock(number: int, barrier: Barrier, path: str) -> bool:
    """Return whether the lock is free."""
    lock = FileLock(path)
    try:
        return lock.acquire(0)
    finally:
        lock.close()


def put_and_wait(path: str, sender: Connection) -> None:
    """Put a blob for an entry that does not come."""
    with stenolog.open(path) as log:
        sender.send(log.blobs.put(b"put"))
        time.sleep(PATIENCE)


def put_append_delete_collect(number: int, barrier: Barrier, path: str, times: int) -> int:
    """Put one of few blobs and append an entry that names it, delete now and then, collect as often.

    How many blobs were collected; none of them while an entry was to come.
    """
    chance, collected = Random(number), 0
    with stenolog.open(path) as log:
        barrier.wait(PATIENCE)
        for turn in range(times):
            sha = log.blobs.put(b"content %d" % chance.randrange(3))
            if chance.random() < 0.5:
                time.sleep(chance.random() / 200)
            conversation = log[f"talk {number}.{turn}"]
            conversation.append(UserMessage(parts=[ImagePart(media_type="image/png", blob=sha)]))
            assert log.blobs[sha].startswith(b"content")
            if chance.random() < 0.8:
                conversation.delete()
            collected += log.collect().blobs
    return collected


def append_until(number: int, barrier: Barrier, path: str, total: int) -> int:
    """Return the number of appends to its own conversation until all processes together made so many."""
    with stenolog.open(path) as log:
        conversation = log[f"talk {number}"]
        conversation.append(UserMessage(text="first"))
        barrier.wait(PATIENCE)
        count = 0
        while log.last_sequence < total:
            conversation.append(UserMessage(text="x" * 1000))
            count += 1
    return count
