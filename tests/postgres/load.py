"""A log under load: writers of several processes' recorders, followers, and the proof that all is right."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from random import Random

from stenolog.adapters.store.contract.appends import Sources, prepare
from stenolog.adapters.store.contract.values import (
    LAST,
    CommittedRow,
    Head,
    PendingEntry,
    Share,
    Stream,
    Which,
)
from stenolog.adapters.store.postgres.application import PostgresLogApplication
from stenolog.adapters.store.postgres.recorder import PostgresLogRecorder
from stenolog.domain.entry import NewEntry, Record, digest_of
from stenolog.domain.events import UserMessage

PATIENCE = 30.0
"""Seconds after which something that should long have come is given up."""
SHARED = 6
"""The conversations that transactions over three of them write to."""
EDGE = Sources()


def said(id: str, text: str = "word " * 20) -> PendingEntry:
    """Return words of a user on their way in, whose id the caller chose."""
    return prepare(EDGE, NewEntry(UserMessage(text=f"{id} {text}"), id))


@contextmanager
def opened(address: str, *, deadline: float = 10.0) -> Iterator[PostgresLogRecorder]:
    """Yield a recorder of its own on a log, as another process has it."""
    application = PostgresLogApplication({"POSTGRES_ADDRESS": address, "POSTGRES_TIMEOUT": str(deadline)})
    recorder = application.recorder
    assert isinstance(recorder, PostgresLogRecorder)
    try:
        yield recorder
    finally:
        recorder.close()
        application.close()


def all_ended(*threads: threading.Thread) -> None:
    """Wait for threads; fail where one does not end."""
    for thread in threads:
        thread.join(PATIENCE)
    assert not [thread.name for thread in threads if thread.is_alive()]


class Writers:
    """Threads that write until they are told to end: each call of theirs is repeated until then.

    `failed` are the exceptions that ended threads.
    """

    def __init__(self, calls: Iterable[Callable[[], object]]) -> None:
        self.failed: list[BaseException] = []
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(call,)) for call in calls]

    def _run(self, call: Callable[[], object]) -> None:
        try:
            while not self._ends.is_set():
                call()
        except BaseException as error:
            self.failed.append(error)

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        all_ended(*self._threads)


def mixed(recorder: PostgresLogRecorder, number: int) -> Callable[[], object]:
    """Return one writer's call.

    Half of the writers write to conversations of their own, a quarter to one that all share. A quarter writes
    to three in one transaction: by a batch behind known heads, and by a thread that gathers appends.
    """
    random, numbers = Random(number), count()
    own, one = Stream(f"own{number}"), Stream("one")
    shared = [Stream(f"shared{each}") for each in range(SHARED)]

    def to_own() -> None:
        recorder.append(
            [said(f"{number}-{next(numbers)}") for _ in range(random.choice((1, 1, 3)))], own, None
        )

    def to_one() -> None:
        recorder.append([said(f"{number}-{next(numbers)}")], one, None)

    def to_three() -> None:
        # In the order of their names, so that a transaction that takes turns late makes no deadlock.
        some = sorted(random.sample(shared, 3), key=lambda stream: stream.name)
        items = [said(f"{number}-{next(numbers)}") for _ in some]
        if random.random() < 0.5:
            heads = [recorder.head(each).position for each in some]
            recorder.insert_batch(
                [Share(*share) for share in zip(some, [[item] for item in items], heads, strict=True)], []
            )
            return
        made = [threading.Event() for _ in some]
        for stream, item, done in zip(some, items, made, strict=True):
            recorder.insert_later([item], done.set, stream=stream)
        assert all(done.wait(PATIENCE) for done in made)

    return (to_own, to_own, to_one, to_three)[number % 4]


class Follower:
    """A thread that reads the log behind what it read last: by looks alone, or whenever `listening` calls."""

    def __init__(self, recorder: PostgresLogRecorder, *, listens: bool = False) -> None:
        self.seen: list[CommittedRow] = []
        self._recorder = recorder
        self._listens = listens
        self._news = threading.Event()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._follow)

    def _follow(self) -> None:
        with self._recorder.listening(self._news.set):
            while not self._ends.is_set():
                if self._listens:
                    self._news.wait(PATIENCE)
                    self._news.clear()
                while rows := self._recorder.committed(self._last, limit=512):
                    self.seen += rows
                if not self._listens:
                    time.sleep(0.005)

    def __enter__(self) -> Follower:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._news.set()
        all_ended(self._thread)

    @property
    def _last(self) -> int:
        return self.seen[-1].notification if self.seen else 0

    def comes_to(self, notification: int) -> bool:
        """Wait until it has read this entry, or one behind it."""
        give_up = time.monotonic() + PATIENCE
        while time.monotonic() < give_up:
            if self._last >= notification:
                return True
            time.sleep(0.01)
        return False


class Faults:
    """Tells missed entries, doubled ones, and those that came out of the order of their conversation."""

    def __init__(self, seen: list[CommittedRow], stored: list[CommittedRow]) -> None:
        ids = [row.notification for row in seen]
        self.missed = len({row.notification for row in stored} - {*ids})
        self.doubled = len(ids) - len({*ids})
        self.disordered = 0
        last: dict[int, int] = {}
        for row in seen:
            self.disordered += row.position != last.get(row.key, 0) + 1
            last[row.key] = row.position

    @property
    def total(self) -> int:
        return self.missed + self.doubled + self.disordered

    def __repr__(self) -> str:
        return f"{self.missed} missed, {self.doubled} doubled, {self.disordered} out of order"


def chained(recorder: PostgresLogRecorder) -> dict[str, list[Record]]:
    """Return every conversation's records; fail where one is missing, or a digest is not the next one."""
    found = {}
    for name in recorder.conversations.names(Which(archived=True)):
        stream, head, records = Stream(name), Head(0, b""), []
        while page := recorder.select_records(stream, head.position, LAST):
            for record in page:
                assert record.position == head.position + 1, name
                assert record.digest == digest_of(head.digest, record), name
                head = Head(record.position, record.digest)
            records += page
        assert recorder.head(stream) == head, name
        assert len({record.id for record in records}) == len(records), name
        found[name] = records
    return found


def faults_of_followers(address: str, seconds: float, *, until_caught: bool = False) -> Faults:
    """Follow a log in three ways while 32 writers of four processes write; return the worst that was seen."""
    with opened(address) as one:
        one.append([said("first")], Stream("one"), None)
        for number in range(SHARED):
            one.append([said(f"first{number}")], Stream(f"shared{number}"), None)
        return _followed(address, one, seconds, until_caught)


def _followed(address: str, one: PostgresLogRecorder, seconds: float, until_caught: bool) -> Faults:
    with opened(address) as two, opened(address) as three, opened(address) as four:
        recorders = (one, two, three, four)
        followers = [Follower(one), Follower(two), Follower(three, listens=True)]
        with followers[0], followers[1], followers[2]:
            with Writers(mixed(recorders[number // 4 % 4], number) for number in range(32)) as writers:
                give_up = time.monotonic() + seconds
                while time.monotonic() < give_up:
                    time.sleep(min(0.5, seconds))
                    if until_caught and any(Faults(f.seen, []).disordered for f in followers):
                        break
            stored = _stored(one)
            came = [follower.comes_to(stored[-1].notification) for follower in followers]
        assert not writers.failed or until_caught, writers.failed
        assert all(came), "a follower stands still"
        assert {row.id for row in stored} == {r.id for each in chained(one).values() for r in each}
        return max((Faults(follower.seen, stored) for follower in followers), key=lambda each: each.total)


def _stored(recorder: PostgresLogRecorder) -> list[CommittedRow]:
    """Return all entries of the log, in order, now that nobody writes."""
    found: list[CommittedRow] = []
    while rows := recorder.committed(found[-1].notification if found else 0, limit=5000):
        found += rows
    return found
