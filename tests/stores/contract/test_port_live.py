"""What a store promises to whoever follows many conversations at once, with what is being written in them."""

from __future__ import annotations

import threading

import pytest

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import Stream

from .given import claim, fork, item, key_of, put, taken

PATIENCE = 20.0
"""Seconds after which what should come soon is given up."""


def said(recorder: LogRecorder, key: int, seen: dict[int, int]) -> list[tuple[int, bytes]]:
    """Return the numbers and words of the unseen rows of a stream's drafts."""
    return [(row.number, row.said) for row in recorder.drafts.since([key], seen)]


def test_what_is_new_of_many_streams_is_read_at_once_in_order(recorder: LogRecorder) -> None:
    one, two, three = Stream("one"), Stream("two"), Stream("three")
    for stream in (one, two, three):
        put(recorder, stream, "a", "b")
    put(recorder, one, "c")
    first, second, third = (key_of(recorder, stream) for stream in (one, two, three))
    found = recorder.appended({first: 2, second: 0, third: 3, third + 99: 0})

    assert [(row.key, row.position) for row in found] == [
        (first, 3), (first, 4), (second, 1), (second, 2), (second, 3),
    ]  # fmt: skip
    assert found == recorder.committed(0, key=first)[2:] + recorder.committed(0, key=second)


def test_of_each_stream_at_most_so_many_come(recorder: LogRecorder) -> None:
    one, two = Stream("one"), Stream("two")
    put(recorder, one, *"abcd")
    put(recorder, two, *"abcd")
    found = recorder.appended({key_of(recorder, one): 1, key_of(recorder, two): 4}, limit=2)

    assert [(row.name, row.position) for row in found] == [("one", 2), ("one", 3), ("two", 5)]


def test_of_a_fork_its_own_entries_come(recorder: LogRecorder) -> None:
    parent = Stream("parent")
    put(recorder, parent, "a", "b")
    child = fork(recorder, parent, 2)
    key = key_of(recorder, child)

    assert [row.position for row in recorder.appended({key: 2})] == [3]
    assert recorder.appended({}) == []


def test_of_a_draft_the_rows_come_that_were_not_seen(recorder: LogRecorder, other: LogRecorder) -> None:
    demo = Stream("demo")
    put(recorder, demo, "a")
    held, key = taken(recorder, demo), key_of(recorder, demo)
    (bare,) = other.drafts.since([key], {})
    recorder.drafts.add([(held.fence, b"1"), (held.fence, b"2")])
    unseen = said(other, key, {})
    recorder.drafts.add([(held.fence, b"3")])

    assert bare[:6] == (key, held.fence, held.lane, held.effect, held.cause, held.attempt)
    assert bare[6:] == (0, b"")
    assert unseen == [(1, b"1"), (2, b"2")]
    assert said(other, key, {held.fence: 2}) == [(3, b"3")]
    assert said(other, key, {held.fence: 3}) == [(0, b"")]
    assert said(other, key + 99, {}) == []


def test_a_claim_that_was_taken_over_has_the_same_rows_under_its_new_fence(recorder: LogRecorder) -> None:
    demo = Stream("demo")
    put(recorder, demo, "a")
    held, key = taken(recorder, demo), key_of(recorder, demo)
    recorder.drafts.add([(held.fence, b"1")])
    later = recorder.claims.take_over(demo, held, "two")
    assert later is not None

    assert [row.fence for row in recorder.drafts.since([key], {held.fence: 1})] == [later.fence]
    assert said(recorder, key, {held.fence: 1}) == [(1, b"1")]


def test_a_settled_claim_has_no_rows_any_more(recorder: LogRecorder) -> None:
    demo = Stream("demo")
    put(recorder, demo, "a")
    held, key = taken(recorder, demo, claim(lane="ä\0")), key_of(recorder, demo)
    recorder.drafts.add([(held.fence, b"1")])
    recorder.append([item("answer")], demo, None, held.fence)

    assert recorder.drafts.since([key], {}) == []


@pytest.mark.slow
@pytest.mark.parametrize("is_own", [True, False], ids=["of this process", "of another process"])
def test_who_asks_for_drafts_is_woken_by_them(
    recorder: LogRecorder, other: LogRecorder, is_own: bool
) -> None:
    demo = Stream("demo")
    put(recorder, demo, "a")
    held = taken(recorder, demo)
    woken = threading.Event()
    with recorder.listening(woken.set, drafts=True):
        # Once for having begun to listen, which says nothing.
        while woken.wait(1.5):
            woken.clear()
        (recorder if is_own else other).drafts.add([(held.fence, b"1")])

        assert woken.wait(PATIENCE)
