"""What a store promises of any other change whose answer is lost: it is made once, and no error is told.

As in `test_port_lost_answers`, on PostgreSQL each round trip is lost in turn, on its way there and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from stenolog.adapters.store.contract.inspection import DamagedRow
from stenolog.adapters.store.contract.roles import ConversationStore
from stenolog.adapters.store.contract.values import LAST, Continuation, ExportPart, Stream
from stenolog.domain.errors import StoreError
from tests.postgres.proxy import Cut, Lost

from .given import claim, fork, item, key_of, put, taken
from .inspecting import faults
from .lost import ID, Way

TRIPS = 40
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
