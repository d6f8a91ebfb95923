"""Group commit: appends that wait for one another share a transaction, which nobody can tell but by time."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stenolog
from stenolog import (
    Conversation,
    Entry,
    Log,
    ModeSwitch,
    NewEntry,
    StenologError,
    UserMessage,
    VersionConflictError,
)
from stenolog.adapters.conversation import log as logs
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.store.claims import Claims
from stenolog.adapters.store.contract.values import Claim
from stenolog.adapters.store.sqlite.turn.group_commit import PendingJob, Savepoint
from stenolog.domain.errors import ClaimLostError
from stenolog.errors import ConversationNotFoundError, DuplicateIdError, InvalidEventError, StoreError
from tests.stores.conftest import fixed_clock, fixed_ids, said, texts
from tests.stores.together import at_once, in_groups, outcome, sealing
from tests.stores.workers import PATIENCE

HI = UserMessage(text="hi")


class Asked(NamedTuple):
    """An append that somebody asks for, with an id for each event."""

    name: str
    events: list[str]
    ids: list[str | None]
    expected: int | None
    fence: int | None


ASKED = st.lists(
    st.builds(
        Asked,
        name=st.sampled_from("ab"),
        events=st.lists(st.sampled_from(["one", "two", "a mode switch"]), min_size=1, max_size=3),
        ids=st.lists(st.sampled_from([None, None, "x", "y"]), min_size=3, max_size=3),
        expected=st.sampled_from([None, None, None, 0, 1, 2, 3, 5]),
        fence=st.sampled_from([None, None, None, 1, 2]),
    ),
    max_size=12,
)


def drafts(asked: Asked) -> list[NewEntry]:
    events = [
        ModeSwitch(mode="agent") if text == "a mode switch" else UserMessage(text=text)
        for text in asked.events
    ]
    return [NewEntry(event, id) for event, id in zip(events, asked.ids, strict=False)]


@contextmanager
def opened() -> Iterator[Log]:
    """Open a log in which one conversation has begun, with a claim on an effect of it."""
    with stenolog.open(":memory:", clock=fixed_clock(), ids=fixed_ids(), entropy=bytes) as log:
        said(log["a"], "first")
        wanted = Claim(0, "a", "model", 2, 1, "key", "me", 0)
        assert Claims(log.recorder, log["a"].stream).take([wanted], 2) == [wanted._replace(fence=1)]
        yield log


def one_by_one(asked: list[Asked]) -> tuple[list[Any], list[Any]]:
    with opened() as log:
        return [outcome(partial(extend, log[each.name], each)) for each in asked], everything(log)


def extend(conversation: Conversation, asked: Asked) -> list[Entry]:
    return logs.extend(conversation, drafts(asked), asked.expected, asked.fence)


def together(asked: list[Asked]) -> tuple[list[Any], list[Any]]:
    with opened() as log:
        handles = {name: log[name] for name in "ab"}
        with log.datastore.reading():  # in memory, nobody writes while somebody reads
            landed = [submit(handles[each.name], each) for each in asked]
        return [outcome(partial(future.result, PATIENCE)) for future in landed], everything(log)


def submit(conversation: Conversation, asked: Asked) -> Future[list[Entry]]:
    """Have the append done in a group; its entries."""
    given, future = drafts(asked), Future[list[Entry]]()

    def land() -> None:
        try:
            future.set_result(logs.to_entries(conversation, given, waiting.result()))
        except StenologError as error:
            future.set_exception(error)

    waiting = PendingJob[Any](sealing(conversation, given, asked.expected, asked.fence), land)
    conversation.log.datastore.group.submit(waiting)
    return future


def everything(log: Log) -> list[Any]:
    with log.datastore.reading() as connection:
        claims = connection.execute("SELECT * FROM claims").fetchall()
        ids = connection.execute("SELECT rowid FROM stored_events").fetchall()
    assert verify(log).ok
    return [claims, ids, *(list(log[name].records()) for name in log)]


@given(ASKED)
def test_a_group_is_as_its_appends_one_after_another(asked: list[Asked]) -> None:
    assert together(asked) == one_by_one(asked)


def commits(log: Log) -> list[str]:
    """Collect every statement that ends a transaction, from now on."""
    seen: list[str] = []
    ends = ("COMMIT", "ROLLBACK")
    connection: sqlite3.Connection = log.datastore.writer
    connection.set_trace_callback(lambda text: seen.append(text) if text in ends else None)
    return seen


def test_what_comes_while_somebody_writes_is_committed_together(log: Log) -> None:
    conversations = [log[str(number)] for number in range(16)]
    ended = commits(log)

    entries = at_once(log, *(partial(conversation.append, HI) for conversation in conversations))

    assert ended == ["COMMIT"]
    assert entries == [next(conversation.entries(after=1)) for conversation in conversations]
    assert verify(log).ok


def test_who_finds_nobody_writing_writes_in_his_own_thread(log: Log) -> None:
    before = threading.active_count()
    said(log["demo"], "a", "b")

    assert threading.active_count() == before


def test_a_conflict_fails_its_own_append_alone(log: Log) -> None:
    conversation, gone = log["demo"], log["gone"]
    said(conversation, "a")
    conversation.append(HI, id="taken")
    said(gone, "a")
    handle = log["gone"]
    gone.delete()
    calls: list[Callable[[], Any]] = [
        partial(conversation.append, HI, expected=3),
        partial(conversation.append, HI, expected=3),
        partial(conversation.append, UserMessage(text="other"), id="taken"),
        partial(conversation.append, HI, id="taken"),
        partial(conversation.append, ModeSwitch(mode="agent")),
        partial(conversation.extend, [HI, NewEntry(UserMessage(text="other"), "taken")]),
        partial(logs.extend, conversation, [HI], None, fence=7),
        partial(handle.append, HI),
        partial(conversation.append, HI),
    ]

    made, stale, taken, again, switch, half, lost, deleted, last = at_once(log, *calls)

    assert (made.position, again.position, last.position) == (4, 3, 5)
    refused = [kind for kind, _ in (stale, taken, switch, half, lost, deleted)]
    assert refused == [
        VersionConflictError,
        DuplicateIdError,
        InvalidEventError,
        DuplicateIdError,
        ClaimLostError,
        ConversationNotFoundError,
    ]
    assert conversation.position == 5
    assert verify(log).ok


@pytest.mark.parametrize("number", [60, 64, 65, 200])
def test_of_any_number_that_wait_one_that_is_refused_fails_alone(log: Log, number: int) -> None:
    conversation = log["demo"]
    said(conversation, "a")
    calls: list[Callable[[], Any]] = [partial(said, log[str(nth % 7)], f"{nth}") for nth in range(number)]
    middle = number // 2
    calls[middle:middle] = [
        partial(conversation.append, HI, id="x"),
        partial(conversation.append, HI, expected=2),
    ]

    outcomes = at_once(log, *calls)

    assert [each[0] for each in outcomes if type(each) is tuple] == [VersionConflictError]
    assert sorted(t for nth in range(7) for t in texts(log[str(nth)])) == sorted(map(str, range(number)))
    assert (conversation.position, verify(log).ok) == (3, True)


class Full:
    """A connection to a disk that is full whenever something is committed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)

    def execute(self, statement: str, *given: Any) -> Any:
        if statement.startswith("COMMIT"):
            raise sqlite3.OperationalError("database or disk is full")
        return self.connection.execute(statement, *given)


def test_what_waits_beside_one_that_settles_a_claim_is_durable_with_it_or_not_at_all(log: Log) -> None:
    conversation, other = log["demo"], log["other"]
    said(conversation, "a")
    said(other, "a")
    claims = Claims(log.recorder, conversation.stream)
    (claim,) = claims.take([Claim(0, "a", "model", 2, 1, "key", "me", 0)], 2)
    writer, log.datastore.writer = log.datastore.writer, Full(log.datastore.writer)  # type: ignore[assignment]
    assert claim is not None
    settling = partial(logs.extend, conversation, [HI], None, fence=claim.fence)
    outcomes = at_once(log, partial(other.append, HI), settling, partial(other.append, HI))
    log.datastore.writer = writer

    assert [kind for kind, _ in outcomes] == [StoreError] * 3
    assert (conversation.position, other.position) == (2, 2)
    assert other.append(HI).position == 3
    assert settling()[0].position == 3
    assert verify(log).ok


@pytest.mark.parametrize("others", [0, 2])
def test_a_job_of_several_goes_on_where_one_of_them_is_refused(log: Log, others: int) -> None:
    conversation, other = log["demo"], log["other"]
    said(conversation, "a")
    appends = [
        sealing(conversation, [NewEntry(HI)], 2),
        sealing(conversation, [NewEntry(HI), NewEntry(HI)], 2),
        sealing(other, [NewEntry(HI)], 0),
        sealing(conversation, [NewEntry(HI), NewEntry(HI)], 3),
    ]

    def job(part: Savepoint) -> list[Any]:
        return [outcome(partial(append, part.smaller())) for append in appends]

    write = partial(log.datastore.group.write, job)
    more = (partial(said, log[str(number)], "b") for number in range(others))
    (one, stale, two, three), *_ = at_once(log, write, *more) if others else [write()]

    assert (one[-1].position, stale[0], two[-1].position, three[-1].position) == (
        3,
        VersionConflictError,
        2,
        5,
    )
    assert (conversation.position, other.position) == (5, 2)
    said(conversation, "and on")
    assert verify(log).ok


@pytest.mark.parametrize("others", [0, 2])
def test_a_job_of_several_that_fails_in_the_end_leaves_none_of_them_behind(log: Log, others: int) -> None:
    conversation, new = log["demo"], log["new"]
    said(conversation, "a")
    appends = [sealing(conversation, [NewEntry(HI)], None), sealing(new, [NewEntry(HI)], None)]

    def job(part: Savepoint) -> None:
        with part:
            for append in appends:
                append(part.smaller())
            raise InvalidEventError("on second thoughts")

    write = partial(outcome, partial(log.datastore.group.write, job))
    more = [partial(said, log[str(number)], "b") for number in range(others)]
    refused, *_ = at_once(log, *more[:1], write, *more[1:])[min(others, 1) :] if others else [write()]

    assert refused == (InvalidEventError, "on second thoughts")
    said(conversation, "b")
    said(new, "b")
    assert (conversation.position, new.position) == (3, 2)
    assert verify(log).ok


def test_a_commit_that_fails_fails_all_that_were_in_it_and_leaves_nothing_behind(log: Log) -> None:
    conversation, new = log["demo"], log["new"]
    said(conversation, "a")

    def fail() -> None:
        raise sqlite3.OperationalError("disk I/O error")

    hook = in_groups(fail)
    log.datastore.commit_hooks.append(hook)
    calls = (
        partial(conversation.append, HI),
        partial(new.append, HI),
        partial(conversation.append, HI, expected=2),
    )
    outcomes = at_once(log, *calls)
    log.datastore.commit_hooks.remove(hook)

    assert [kind for kind, _ in outcomes] == [StoreError] * 3
    assert list(log) == ["demo"]
    said(conversation, "b")
    said(new, "b")
    assert (conversation.position, new.position) == (3, 2)
    assert verify(log).ok


def test_of_what_no_longer_goes_on_the_disk_nothing_is_acknowledged(log: Log) -> None:
    conversations = [log[str(number)] for number in range(8)]
    for conversation in conversations:
        said(conversation, "a")
    connection: sqlite3.Connection = log.datastore.writer
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 30}")

    big = UserMessage(text=Random(1).randbytes(5_000).hex())  # what cannot be compressed much
    outcomes = at_once(log, *(partial(conversation.append, big) for conversation in conversations))
    connection.execute("PRAGMA max_page_count = 1000000")

    refused = [
        conversation
        for conversation, each in zip(conversations, outcomes, strict=True)
        if not isinstance(each, Entry)
    ]
    assert refused
    assert {each[0] for each in outcomes if not isinstance(each, Entry)} == {StoreError}
    assert [conversation.position for conversation in conversations] == [
        2 if conversation in refused else 3 for conversation in conversations
    ]
    for conversation in conversations:
        said(conversation, "b")
    assert verify(log).ok


def test_whatever_a_hook_raises_is_told_to_all(log: Log) -> None:
    class OddError(Exception):
        def __init__(self, one: int, two: int) -> None:
            super().__init__(f"{one} and {two}")

    def fail() -> None:
        raise OddError(1, 2)

    def caught(conversation: Conversation) -> str:
        with pytest.raises(OddError) as caught:
            conversation.append(HI)
        return str(caught.value)

    log.datastore.commit_hooks.append(in_groups(fail))
    told = at_once(log, *(partial(caught, log[str(number)]) for number in range(3)))
    log.datastore.commit_hooks.clear()

    assert told == ["1 and 2"] * 3
    assert list(log) == []


def test_hooks_run_once_in_a_transaction_and_the_bell_rings_when_it_is_durable(path: Path) -> None:
    with stenolog.open(path) as log:
        conversations = [log[str(number)] for number in range(4)]
        ran: list[str] = []
        heard: list[int] = []

        def listen() -> None:
            with closing(sqlite3.connect(path)) as other:
                heard.extend(other.execute("SELECT count(*) FROM stored_events").fetchone())

        log.datastore.commit_hooks.append(in_groups(lambda: ran.append("once")))
        # Without the thread that polls for other processes, which calls it once more.
        log.datastore.commit_notifier.listeners["the test"] = listen, False
        at_once(log, *(partial(conversation.append, HI) for conversation in conversations))

        assert ran == ["once"]
        assert heard == [8]
