"""Workers that are killed, frozen and stopped: every message is answered once, and nothing is left over."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

import stenolog
from stenolog import AssistantMessage, Conversation, Log, ToolResult, UserMessage
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.apps.workers.procrastinate_queue import STALLED
from stenolog.apps.workers.status import workers_status
from stenolog.domain.lanes.effects import UNKNOWN
from stenolog.workers import submit_sync
from tests.engine.workload import lines
from tests.postgres.server import Server
from tests.stores import workers
from tests.workers.given import jobs
from tests.workers.process import NEVER, RUN, work

KILLS = int(os.environ.get("STENOLOG_KILLS", "20"))
FREEZES = max(1, KILLS // 10)
WORKERS = 3
TALKS = 12
FROZEN = 6.0
"""Seconds that a worker is frozen for."""
# A second where the machine does nothing else, and these tests share theirs.
SLACK = 3.0
"""Seconds behind the time after which a worker counts as dead, until another one has begun its work."""


class Kill(NamedTuple):
    """One kill: when, the effects that were under way by conversation, and the conversations that it had."""

    at: float
    pid: int
    doing: Counter[str]
    had: set[str]


class Crew:
    """Workers in processes of their own, and people who each talk to them in a conversation."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address = address
        self.folder = folder
        self.log = stenolog.open(address)
        self.running = [self.begun() for _ in range(WORKERS)]
        self.kills: list[Kill] = []
        self.freezes: list[tuple[float, float]] = []
        self.frozen = 0
        self.is_over = threading.Event()
        self.said: Counter[str] = Counter()
        self.people = [threading.Thread(target=self.talk, args=(f"talk {n}",)) for n in range(TALKS)]
        for person in self.people:
            person.start()

    def begun(self) -> BaseProcess:
        """Return a new worker."""
        return workers.started(work, self.address, str(self.folder))

    def talk(self, name: str) -> None:
        """Say something, wait for the answer, and say the next thing; each is submitted twice."""
        while not self.is_over.is_set():
            number = self.said[name] + 1
            for _ in range(2):
                position = submit_sync(self.log[name], f"Message {number}", id=f"m-{number}")
            self.said[name] = number
            for _ in self.log[name].tail(after=position, timeout=workers.PATIENCE):
                if finals(self.log[name]) >= number:
                    break

    def ready(self) -> None:
        """Wait until the workers work."""
        give_up = time.monotonic() + workers.PATIENCE
        while not (self.folder / "ledger").exists():
            assert time.monotonic() < give_up, "no worker has begun anything"
            time.sleep(0.05)

    def kill(self, chance: Random) -> None:
        """Kill one of the workers, and begin another one."""
        process = self.running.pop(chance.randrange(len(self.running)))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)  # so that it stands where its claims say
        doing = self.effects_of(process.pid)
        self.kills.append(Kill(time.time(), process.pid, doing, {*doing, *self.runs_of(process.pid)}))
        os.kill(process.pid, signal.SIGKILL)
        process.join(workers.PATIENCE)
        self.running.append(self.begun())

    def effects_of(self, pid: int) -> Counter[str]:
        """Return the number of effects that a worker is at, by conversation."""
        return Counter(claim.conversation for claim in self.log.claims() if claim.pid == pid)

    def runs_of(self, pid: int) -> list[str]:
        """Return the conversations that a worker ran, as it said within the last second."""
        status = workers_status(self.log)
        assert status is not None
        return [status.names[key] for each in status.workers if each.pid == pid for key in each.doing]

    def until_alive(self, pid: int) -> None:
        """Wait until a worker works, and heeds signals."""
        give_up = time.monotonic() + workers.PATIENCE
        while (status := workers_status(self.log)) and pid not in {each.pid for each in status.workers}:
            assert time.monotonic() < give_up, "the worker has not begun"
            time.sleep(0.05)

    def freeze(self, chance: Random) -> None:
        """Stop one of the workers for a while, and let it go on."""
        process = chance.choice(self.running)
        assert process.pid is not None
        began = time.time()
        os.kill(process.pid, signal.SIGSTOP)
        # It cannot renew its lease, and so ends them by itself when it goes on: others may have them.
        self.frozen += self.effects_of(process.pid).total()
        time.sleep(FROZEN)
        os.kill(process.pid, signal.SIGCONT)
        self.freezes.append((began, time.time()))

    def ended(self) -> list[int | None]:
        """Let the people finish, tell the workers to stop, and return how they have ended."""
        self.is_over.set()
        for person in self.people:
            person.join(workers.PATIENCE)
        for process in self.running:
            assert process.pid is not None
            os.kill(process.pid, signal.SIGTERM)
        for process in self.running:
            process.join(workers.PATIENCE)
        return [process.exitcode for process in self.running]


@contextmanager
def crew(address: str, folder: Path) -> Iterator[Crew]:
    """Yield workers at work; none is left behind."""
    found = Crew(address, folder)
    try:
        found.ready()
        yield found
    finally:
        found.is_over.set()
        for process in found.running:
            process.kill()
        found.log.close()


def finals(conversation: Conversation) -> int:
    """Return the number of whole answers in a conversation."""
    events = (entry.event for entry in conversation)
    return sum(isinstance(event, AssistantMessage) and not event.tool_calls for event in events)


def checked(log: Log, said: Counter[str]) -> None:
    """Check that every message was answered once, every call has one result, and the chain is whole."""
    for name, number in said.items():
        events = [entry.event for entry in log[name]]
        messages = [event.text for event in events if isinstance(event, UserMessage)]
        calls = [
            call.id for event in events if isinstance(event, AssistantMessage) for call in event.tool_calls
        ]
        results = [event.call_id for event in events if isinstance(event, ToolResult)]
        assert messages == [f"Message {n}" for n in range(1, number + 1)], name
        assert finals(log[name]) == number, name
        assert sorted(results) == sorted(calls), name
        assert len(set(calls)) == len(calls) == number, name
    report = verify(log)
    assert report.problems == (), report


class Noted(NamedTuple):
    """A line of the ledger: when, by which process, what, in which conversation, and its key."""

    at: float
    pid: int
    kind: str
    name: str
    key: str


def noted(folder: Path) -> list[Noted]:
    """Return all that the workers noted."""
    return [
        Noted(float(at), int(pid), kind, " ".join(name), key)
        for at, pid, kind, *name, key in lines(folder / "ledger")
    ]


def repeats(folder: Path, said: Counter[str]) -> Counter[str]:
    """Return how often effects were begun again, by kind."""
    begun = Counter((each.kind, each.key) for each in noted(folder) if each.kind != RUN)
    again: Counter[str] = Counter()
    for (kind, _), number in begun.items():
        again[kind] += number - 1
    # Another attempt has another key; each message takes two calls of the model.
    again["model"] = sum(number for (kind, _), number in begun.items() if kind == "model") - 2 * said.total()
    return again


def recoveries(folder: Path, kills: list[Kill], freezes: list[tuple[float, float]]) -> list[float]:
    """Return for each conversation of a killed process the seconds until another one worked on it.

    Where that one was killed or frozen before it began, the seconds are its own, and are left out.
    """
    found = []
    for kill in kills:
        for name in kill.doing:
            later = [each for each in noted(folder) if each.name == name and each.at > kill.at]
            after = [each.at for each in later if each.pid != kill.pid and each.kind != RUN]
            until = min(after, default=kill.at)
            given = {each.pid for each in later if each.at < until}
            between = [other for other in kills if kill.at < other.at < until]
            killed = any(name in other.had or other.pid in given for other in between)
            frozen = any(began < until and ended > kill.at for began, ended in freezes)
            if after and not killed and not frozen:
                found.append(until - kill.at)
    return found


def left_over(server: Server, address: str, log: Log) -> tuple[int, int]:
    """Return the number of jobs and of claims."""
    return len(jobs(server, address)), len(log.claims())


@pytest.mark.slow
def test_workers_that_are_killed_and_frozen_answer_every_message_once(
    postgres: Callable[[str], Server], server_log: str, tmp_path: Path
) -> None:
    chance = Random(KILLS)
    with crew(server_log, tmp_path) as at_work:
        for number in range(KILLS):
            time.sleep(chance.uniform(0.3, 2.5))
            at_work.kill(chance)
            if number % (KILLS // FREEZES) == 0:
                at_work.freeze(chance)
        codes = at_work.ended()
        log, said, kills = at_work.log, at_work.said, at_work.kills
        again, in_flight = repeats(tmp_path, said), sum(kill.doing.total() for kill in kills) + at_work.frozen
        waits = recoveries(tmp_path, kills, at_work.freezes)
        print(f"{said.total()} messages, {len(kills)} kills at {in_flight} effects, again: {dict(again)}")
        print(f"recovery: median {sorted(waits)[len(waits) // 2]:.2f} s, most {max(waits):.2f} s")

        assert codes == [0] * WORKERS
        checked(log, said)
        assert in_flight > 0
        assert again[NEVER] == 0
        assert again.total() <= in_flight
        assert max(waits) <= STALLED + SLACK
        assert left_over(postgres("postgres 15"), server_log, log) == (0, 0)


@pytest.mark.slow
def test_workers_that_are_told_to_stop_repeat_nothing(
    postgres: Callable[[str], Server], server_log: str, tmp_path: Path
) -> None:
    with crew(server_log, tmp_path) as at_work:
        for _ in range(2 * WORKERS):
            time.sleep(1.0)
            process = at_work.running.pop(0)
            assert process.pid is not None
            at_work.running.append(at_work.begun())
            at_work.until_alive(process.pid)
            os.kill(process.pid, signal.SIGTERM)
            process.join(workers.PATIENCE)
            assert process.exitcode == 0
        codes = at_work.ended()

        assert codes == [0] * WORKERS
        checked(at_work.log, at_work.said)
        assert repeats(tmp_path, at_work.said).total() == 0
        unknown = [
            entry.position
            for name in at_work.said
            for entry in at_work.log[name]
            if isinstance(entry.event, ToolResult) and entry.event.meta == UNKNOWN
        ]
        assert unknown == []
        assert left_over(postgres("postgres 15"), server_log, at_work.log) == (0, 0)
