"""What a store promises of an append whose answer is lost: whoever appended is told what became of it.

On PostgreSQL each round trip of an append is lost in turn, before it reached the server and after it was
answered. Whatever is told as written stands in the log once; for what stands there no error is told.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from eventsourcing.persistence import StoredEvent

from stenolog.adapters.store.contract.inspection import DamagedRow
from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.roles import ConversationStore
from stenolog.adapters.store.contract.values import (
    LAST,
    Continuation,
    ExportPart,
    PendingEntry,
    Share,
    Stream,
)
from stenolog.domain.errors import ClaimLostError, OperationalError, StoreError, VersionConflictError
from tests.postgres.proxy import Cut, Lost

from .given import claim, fork, item, key_of, put, taken
from .inspecting import faults
from .lost import ID, Way
from .stores import Postgres

TRIPS = 40
"""More round trips than any append makes from the one on that has the id in it."""


def lost_entry() -> PendingEntry:
    return item("lost?", ID)


def drawn_entry() -> PendingEntry:
    """Return an entry whose id no caller chose."""
    return PendingEntry("user_message@1", b"{}", ID, 5, b"salt")


def known(recorder: LogRecorder) -> Stream:
    """Return the conversation with its head, as one has it who has just appended."""
    stream = Stream("demo")
    put(recorder, stream, "known")
    return stream


def settle(way: Way, stream: Stream) -> object:
    held = taken(way.beside, Stream("demo", way.beside.conversations.find("demo")), claim())
    return way.behind.append([lost_entry()], stream, None, held.fence)


def later(recorder: LogRecorder) -> object:
    woken = threading.Event()
    waiting = recorder.insert_later([lost_entry()], woken.set, stream=known(recorder))
    assert woken.wait(20)
    return waiting.result()


APPENDS: dict[str, Callable[[Way], object]] = {
    "the first": lambda way: way.behind.append([lost_entry()], Stream("new"), None),
    "head unknown": lambda way: way.behind.append([lost_entry()], Stream("demo"), None),
    "head known": lambda way: way.behind.append([lost_entry()], known(way.behind), None),
    "expected": lambda way: way.behind.append([lost_entry()], known(way.behind), 3),
    "expected, head unknown": lambda way: way.behind.append([lost_entry()], Stream("demo"), 2),
    "an id that was drawn": lambda way: way.behind.append([drawn_entry()], known(way.behind), None),
    "several": lambda way: way.behind.append([item("a"), lost_entry()], known(way.behind), None),
    "settling": lambda way: settle(way, known(way.behind)),
    "settling, head unknown": lambda way: settle(way, Stream("demo")),
    "later": lambda way: later(way.behind),
    "a batch": lambda way: way.behind.insert_batch([Share(Stream("demo"), [lost_entry()], 2)], []),
    "a batch with a branch": lambda way: way.behind.insert_batch(
        [Share(Stream("demo"), [lost_entry()], 2, [("branch", 3)])], []
    ),
    "the library's": lambda way: way.behind.insert_events([StoredEvent("demo", 3, "t@1", ID.encode())]),
}


def written(recorder: LogRecorder) -> int:
    """Count the entries of the log that are the lost one."""
    return sum(row.id == ID and row.topic != "mode_switch@1" for row in recorder.committed(0))


FAST = {"the first", "head known", "settling", "a batch", "the library's"}
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in APPENDS if name not in FAST]


@pytest.mark.parametrize("lost", ["answer", pytest.param("request", marks=pytest.mark.slow)])
@pytest.mark.parametrize("append", [*sorted(FAST), *SLOW])
def test_of_an_append_whose_connection_dies_is_told_what_became_of_it(
    way: Way, append: str, lost: Lost
) -> None:
    rounds = 0
    for number in range(TRIPS):
        way.proxy.cut, way.proxy.was_cut = Cut(ID.encode(), lost, number), False
        try:
            APPENDS[append](way)
            told = 1
        except OperationalError:
            told = 0
        way.proxy.cut = None

        assert (number, written(way.beside)) == (number, told)
        assert way.beside.claims.everywhere() == []
        rounds += way.proxy.was_cut
        if not way.proxy.was_cut:
            break
        for name in ("branch", "demo", "new"):
            if key := way.beside.conversations.find(name):
                way.beside.conversations.delete(key, name)
        put(way.beside, Stream("demo"), "first")
    assert 0 < rounds < TRIPS - 1


@pytest.mark.parametrize("append", ["head known", pytest.param("settling", marks=pytest.mark.slow)])
def test_an_append_is_looked_up_as_soon_as_the_server_is_there_again(way: Way, append: str) -> None:
    way.proxy.away = 0.5
    way.proxy.cut = Cut(ID.encode(), "answer", 0)
    APPENDS[append](way)

    assert way.proxy.was_cut
    assert written(way.beside) == 1


def test_where_the_server_stays_away_an_error_is_told_by_the_deadline(way: Way) -> None:
    store = Postgres(way.address)
    behind = store.open(deadline=1)
    stream = known(behind)
    way.proxy.away = 600.0
    way.proxy.cut = Cut(ID.encode(), "request", 0)
    begun = time.monotonic()

    with pytest.raises(OperationalError):
        behind.append([lost_entry()], stream, None)
    assert time.monotonic() - begun < 5
    assert written(way.beside) == 0
    store.close()


def test_whoever_is_told_that_an_append_stands_gets_the_entry_as_it_stands(way: Way) -> None:
    stream = known(way.behind)
    way.proxy.cut = Cut(ID.encode(), "answer", 0)
    (record,) = way.behind.append([lost_entry()], stream, 3)

    assert [record] == way.beside.select_records(Stream("demo"), 3, 4)
    assert put(way.behind, stream, "and on", expected=4) == [5]


def test_an_append_that_was_lost_on_its_way_is_refused_where_another_came_first(way: Way) -> None:
    stream = known(way.behind)
    way.proxy.away = 0.3
    way.proxy.cut = Cut(ID.encode(), "request", 0)
    with way.beside.listening(lambda: None):
        other = threading.Timer(0.1, put, (way.beside, Stream("demo"), "another"))
        other.start()
        with pytest.raises(VersionConflictError):
            way.behind.append([lost_entry()], stream, 3)
        other.join()
    assert written(way.beside) == 0


def test_a_claim_that_was_lost_meanwhile_is_told_and_nothing_is_written(way: Way) -> None:
    stream = known(way.behind)
    beside = Stream("demo", key_of(way.beside, Stream("demo")))
    held = taken(way.beside, beside)
    way.proxy.away = 0.3
    way.proxy.cut = Cut(ID.encode(), "request", 0)
    other = threading.Timer(0.1, way.beside.claims.take_over, (beside, held, "two"))
    other.start()
    with pytest.raises(ClaimLostError):
        way.behind.append([lost_entry()], stream, None, held.fence)
    other.join()
    assert written(way.beside) == 0


def test_a_recorder_that_never_looks_again_would_be_caught(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    from stenolog.adapters.store.postgres import appends
    from stenolog.adapters.store.postgres.connection import datastore

    stream = known(way.behind)
    monkeypatch.setattr(appends, "is_lost", lambda _: False)
    monkeypatch.setattr(datastore, "may_be_repeated", lambda _: False)
    way.proxy.cut = Cut(ID.encode(), "answer", 0)

    with pytest.raises(OperationalError):
        way.behind.append([lost_entry()], stream, None)
    assert written(way.beside) == 1


# What a store promises of any other change whose answer is lost: it is made once, and no error is told.
#
# As in `test_port_lost_answers`, on PostgreSQL each round trip is lost in turn, on its way there and back.


"""More round trips than any of them makes."""


class Change(NamedTuple):
    """A change to a conversation: a text in its first request that is lost, how it is made and seen."""

    text: bytes
    make: Callable[[Way, Stream], object]
    seen: Callable[[Way, Stream], object]
    expected: object


def whats(way: Way, stream: Stream) -> list[str]:
    """Return what became of a conversation, in order."""
    with way.beside.inspect() as inspection:
        changes = [change for change in inspection.history() if not isinstance(change, DamagedRow)]
    return [change.what for change in changes if stream.key in (change.stream, change.parent)]


def conversations(way: Way) -> ConversationStore:
    return way.behind.conversations


def erase(way: Way, stream: Stream) -> dict[int, int]:
    having = {key_of(way.beside, stream): stream.name}
    written = {key: (2, [item("erased", ID)]) for key in having}
    return way.behind.erasure.erase(stream, [2], having, written)


def export(way: Way, stream: Stream) -> None:
    parts: Iterator[ExportPart] = iter(
        [Continuation(f"{stream.name} copy", 0, 2), *way.beside.select_records(stream, 0, LAST)]
    )
    way.behind.insert_export(parts)


def take_over(way: Way, stream: Stream) -> None:
    held = taken(way.beside, stream)
    now = way.behind.claims.take_over(stream, held, "heir")
    assert now is not None
    assert now in way.beside.claims.of(stream)
    assert now.fence > held.fence


def draft(way: Way, stream: Stream) -> None:
    held = taken(way.beside, stream, claim("model"))
    way.behind.drafts.add([(held.fence, b"before")])
    way.behind.drafts.add([(held.fence, b"lost?"), (held.fence, b"lost?")])


def drafted(way: Way, stream: Stream) -> list[bytes]:
    (held,) = way.beside.claims.of(stream)
    return way.beside.drafts.of(held.fence)


CHANGES = {
    "rename": Change(
        b"renamed", lambda way, stream: conversations(way).rename(key_of(way.beside, stream), "other"), whats,
        ["begun", "renamed"],
    ),
    "archive": Change(
        b"archived", lambda way, stream: conversations(way).archive(key_of(way.beside, stream), 7), whats,
        ["begun", "archived"],
    ),
    "delete": Change(
        b"deleted", lambda way, stream: conversations(way).delete(key_of(way.beside, stream), stream.name),
        whats, ["begun", "deleted"],
    ),
    "fork": Change(b"forked", lambda way, stream: fork(way.behind, stream, 2), whats, ["begun", "forked"]),
    "fork by name": Change(
        b"forked", lambda way, stream: fork(way.behind, stream, 2, f"{stream.name} fork"), whats,
        ["begun", "forked"],
    ),
    "erase": Change(
        ID.encode(), erase, lambda way, stream: way.beside.head(Stream(stream.name)).position, 3
    ),
    "export": Change(
        b"copy", export, lambda way, stream: way.beside.head(Stream(f"{stream.name} copy")).position, 2
    ),
    "take over": Change(
        b"heir", take_over, lambda way, stream: [it.owner for it in way.beside.claims.of(stream)], ["heir"]
    ),
    "draft": Change(b"lost?".hex().encode(), draft, drafted, [b"before", b"lost?", b"lost?"]),
}  # fmt: skip


@pytest.mark.parametrize("lost", ["answer", pytest.param("request", marks=pytest.mark.slow)])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_whose_connection_dies_is_made_once_and_told(way: Way, change: str, lost: Lost) -> None:
    asked = CHANGES[change]
    for number in range(TRIPS):
        stream = Stream(f"talk {number}")
        put(way.beside, stream, "first")
        way.proxy.cut, way.proxy.was_cut = Cut(asked.text, lost, number), False
        asked.make(way, stream)
        way.proxy.cut = None

        assert (number, asked.seen(way, stream)) == (number, asked.expected)
        if not way.proxy.was_cut:
            break
        if change == "rename":
            way.beside.conversations.rename(key_of(way.beside, Stream("other")), f"{number} was renamed")
    assert 0 < number < TRIPS - 1
    assert faults(way.beside) == []


def test_collected_blobs_are_counted_though_the_answer_is_lost(way: Way) -> None:
    for number in range(TRIPS):
        sha = f"{number:064x}"
        with way.beside.datastore.connect() as connection:  # type: ignore[attr-defined]
            blob = f"INSERT INTO {{s}}.blobs (sha256, bytes) VALUES ('\\x{sha}', 'four')"
            connection.run(blob)
        way.proxy.cut, way.proxy.was_cut = Cut(b"DELETE FROM", "answer", number), False
        collected = way.behind.blobs.collect()
        way.proxy.cut = None

        assert (collected.blobs, collected.bytes) == (1, 4)
        assert not way.beside.blobs.has(sha)
        if not way.proxy.was_cut:
            break


def test_where_the_server_stays_away_the_error_says_that_it_may_have_been_written(way: Way) -> None:
    key = key_of(way.beside, Stream("demo"))
    way.behind.datastore.deadline = 1  # type: ignore[attr-defined]
    way.proxy.away = 600.0
    way.proxy.cut = Cut(b"COMMIT", "answer", 0)

    with pytest.raises(StoreError, match="it may have been written: look before you do it again"):
        way.behind.conversations.rename(key, "renamed")
    assert way.beside.conversations.name_of(key) == "renamed"


def test_where_nothing_can_have_been_written_the_error_does_not_say_so(way: Way) -> None:
    key = key_of(way.beside, Stream("demo"))
    way.behind.datastore.deadline = 1  # type: ignore[attr-defined]
    way.proxy.away = 600.0
    way.proxy.cut = Cut(b"renamed", "request", 0)

    with pytest.raises(StoreError) as told:
        way.behind.conversations.rename(key, "renamed")
    assert "may have been written" not in str(told.value)
    assert way.beside.conversations.name_of(key) == "demo"
