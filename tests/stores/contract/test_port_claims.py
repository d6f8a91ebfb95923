"""What a store promises of claims and drafts: one claim for an effect, and fences that only grow."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import Claim, Stream
from stenolog.domain.errors import ClaimLostError, VersionConflictError

from .given import claim, item, key_of, positions, put, taken


@pytest.fixture
def demo(recorder: LogRecorder) -> Stream:
    stream = Stream("demo")
    put(recorder, stream, "a", "b")
    return stream


def test_a_claim_comes_back_as_it_was_taken_but_for_its_fence(
    recorder: LogRecorder, other: LogRecorder, demo: Stream
) -> None:
    wanted = Claim(
        0, "ä\0 lane", "tool 3/call\0 😀", 2, 7, "key\0", "runner 😀", 1_790_000_000_000_000, b'{"\0":1}'
    )
    (found,) = recorder.claims.take(demo, [wanted], 3)

    assert found is not None
    assert found.fence > 0
    assert found._replace(fence=0) == wanted
    assert other.claims.of(Stream("demo", demo.key)) == [found]
    assert other.claims.everywhere() == [("demo", found)]


@pytest.mark.parametrize("expected", [0, 2, 4])
def test_no_claim_is_taken_at_a_position_where_the_conversation_does_not_stand(
    recorder: LogRecorder, demo: Stream, expected: int
) -> None:
    with pytest.raises(VersionConflictError) as refused:
        recorder.claims.take(demo, [claim(), claim("tool 3/0")], expected)

    assert (refused.value.expected, refused.value.found) == (expected, 3)
    assert recorder.claims.of(demo) == []


def test_of_several_claims_those_are_taken_that_nobody_has(
    recorder: LogRecorder, other: LogRecorder, demo: Stream
) -> None:
    theirs = taken(other, demo, claim("tool 3/1", owner="two"))
    wanted = [claim("tool 3/0"), claim("tool 3/1"), claim("tool 3/2")]
    first, second, third = recorder.claims.take(demo, wanted, 3)

    assert second is None
    assert first is not None
    assert third is not None
    assert theirs.fence < first.fence < third.fence
    assert recorder.claims.of(demo) == [theirs, first, third]


@pytest.mark.parametrize(
    ("lane", "effect", "is_free"),
    [
        ("coder", "model", False),
        ("writer", "model", True),
        ("coder", "Model", True),
        ("coder", "tool 3/0", True),
    ],
)
def test_an_effect_is_one_of_a_lane(
    recorder: LogRecorder, demo: Stream, lane: str, effect: str, is_free: bool
) -> None:
    taken(recorder, demo)

    (found,) = recorder.claims.take(demo, [claim(effect, lane, "two")], 3)
    assert (found is not None) == is_free


def test_whoever_asks_twice_for_the_same_effect_has_it_once(recorder: LogRecorder, demo: Stream) -> None:
    first, second = recorder.claims.take(demo, [claim(), claim()], 3)

    assert (first is None, second is None) == (False, True)
    assert recorder.claims.take(demo, [], 3) == []


def test_claims_are_of_one_conversation_and_told_with_its_name_of_today(
    recorder: LogRecorder, demo: Stream
) -> None:
    beside = Stream("beside")
    put(recorder, beside, "a")
    first, second = taken(recorder, beside), taken(recorder, demo)
    recorder.conversations.rename(key_of(recorder, beside), "renamed")

    assert recorder.claims.of(demo) == [second]
    assert recorder.claims.everywhere() == [("renamed", first), ("demo", second)]


def test_fences_grow_whatever_becomes_of_the_claims(recorder: LogRecorder, demo: Stream) -> None:
    fences = list[int]()
    for _ in range(3):
        held = taken(recorder, demo)
        fences.append(held.fence)
        recorder.claims.release(held)
        recorder.claims.release(held)
    held = taken(recorder, demo)
    fences.append(held.fence)
    recorder.append([item("c")], demo, None, held.fence)
    fences.append(taken(recorder, demo).fence)

    assert fences == sorted({*fences})


def test_a_claim_is_taken_over_once(recorder: LogRecorder, other: LogRecorder, demo: Stream) -> None:
    first = taken(recorder, demo)
    second = other.claims.take_over(demo, first, "two")

    assert second is not None
    assert second == first._replace(fence=second.fence, owner="two")
    assert recorder.claims.take_over(demo, first, "three") is None
    recorder.claims.release(first)
    assert recorder.claims.of(demo) == [second]
    recorder.claims.release(second)
    assert other.claims.take_over(demo, second, "three") is None


def test_of_many_that_want_an_effect_or_take_it_over_one_has_it(
    recorder: LogRecorder, other: LogRecorder, demo: Stream
) -> None:
    def take(number: int) -> Claim | None:
        store = (recorder, other)[number % 2]
        return store.claims.take(Stream("demo", demo.key), [claim(owner=str(number))], 3)[0]

    def take_over(number: int) -> Claim | None:
        return (recorder, other)[number % 2].claims.take_over(demo, first, str(number))

    with ThreadPoolExecutor(8) as pool:
        (first,) = (found for found in pool.map(take, range(24)) if found)
        (second,) = (found for found in pool.map(take_over, range(24)) if found)
    assert recorder.claims.of(demo) == [second]


def test_claims_and_appends_never_cross(recorder: LogRecorder, other: LogRecorder, demo: Stream) -> None:
    """Whoever has a claim took it at the position that it asked for: an append came before, or after."""

    def race(number: int) -> tuple[int, bool]:
        name = f"talk {number}"
        put(recorder, Stream(name), "a")
        stream = Stream(name, recorder.conversations.find(name))
        with ThreadPoolExecutor(2) as pool:
            appending = pool.submit(put, recorder, Stream(name), "b")
            try:
                (found,) = other.claims.take(stream, [claim()], 2)
            except VersionConflictError:
                found = None
            appending.result()
        return len(recorder.claims.of(stream)), found is not None

    for number in range(10):
        count, was_taken = race(number)
        assert count == was_taken


def test_drafts_are_kept_in_the_order_in_which_they_were_said(recorder: LogRecorder, demo: Stream) -> None:
    first, second = recorder.claims.take(demo, [claim(), claim("tool 3/0")], 3)
    assert first is not None
    assert second is not None
    recorder.drafts.add([(first.fence, b"1"), (second.fence, b"other"), (first.fence, bytes(range(256)))])
    recorder.drafts.add([])
    recorder.drafts.add((first.fence, b"%d" % number) for number in range(10, 20))

    assert recorder.drafts.of(first.fence) == [b"1", bytes(range(256)), *(b"%d" % n for n in range(10, 20))]
    assert recorder.drafts.of(second.fence) == [b"other"]
    recorder.claims.release(first)
    assert (recorder.drafts.of(first.fence), recorder.drafts.of(second.fence)) == ([], [b"other"])


def test_nothing_is_kept_for_a_claim_that_is_gone_or_was_never_there(
    recorder: LogRecorder, other: LogRecorder, demo: Stream
) -> None:
    held = taken(recorder, demo)
    theirs = other.claims.take_over(demo, held, "two")
    assert theirs is not None
    recorder.drafts.add([(held.fence, b"late"), (10**9, b"nobody's"), (theirs.fence, b"in time")])

    assert (recorder.drafts.of(held.fence), recorder.drafts.of(10**9)) == ([], [])
    assert other.drafts.of(theirs.fence) == [b"in time"]


def test_drafts_go_on_behind_those_that_were_taken_over(recorder: LogRecorder, demo: Stream) -> None:
    held = taken(recorder, demo)
    recorder.drafts.add([(held.fence, b"1"), (held.fence, b"2")])
    theirs = recorder.claims.take_over(demo, held, "two")
    assert theirs is not None
    recorder.drafts.add([(theirs.fence, b"3")])

    assert recorder.drafts.of(theirs.fence) == [b"1", b"2", b"3"]


def test_an_append_settles_one_claim_and_leaves_the_others(recorder: LogRecorder, demo: Stream) -> None:
    first, second = recorder.claims.take(demo, [claim(), claim("tool 3/0")], 3)
    assert first is not None
    assert second is not None
    recorder.drafts.add([(second.fence, b"said")])
    recorder.append([item("c"), item("d")], demo, 3, second.fence)

    assert recorder.drafts.of(second.fence) == []
    assert recorder.claims.of(demo) == [first]
    assert positions(recorder, demo) == [1, 2, 3, 4, 5]
    recorder.append([item("e")], demo, None, first.fence)
    assert recorder.claims.everywhere() == []


@pytest.mark.parametrize("expected", [None, 3])
def test_a_claim_taken_over_meanwhile_is_lost_before_a_word_is_written(
    recorder: LogRecorder, other: LogRecorder, demo: Stream, expected: int | None
) -> None:
    held = taken(recorder, demo)
    theirs = other.claims.take_over(demo, held, "two")

    with pytest.raises(ClaimLostError, match=str(held.fence)):
        recorder.append([item("late")], demo, expected, held.fence)
    assert positions(other, "demo") == [1, 2, 3]
    assert other.claims.of(demo) == [theirs]
