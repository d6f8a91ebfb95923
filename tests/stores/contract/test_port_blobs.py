"""What a store promises of blobs: once by their sha256, and until no entry and no process needs them."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

import pytest

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import BlobContent, Claim, Collected, Continuation, Share, Stream
from stenolog.domain.errors import StoreError

from .given import claim, item, key_of, put, taken


def sha_of(content: bytes) -> str:
    return sha256(content).hexdigest()


def keep(recorder: LogRecorder, *contents: bytes) -> list[str]:
    """Keep blobs that this process still means to name."""
    shas = [sha_of(content) for content in contents]
    recorder.blobs.put([*zip(shas, contents, strict=True)])
    return shas


def leave(recorder: LogRecorder, *contents: bytes) -> list[str]:
    """Keep blobs that nobody means to name."""
    shas = keep(recorder, *contents)
    for sha in shas:
        recorder.blobs.release(sha.encode())
    return shas


def collected(recorder: LogRecorder, *candidates: str) -> Collected:
    """Collect blobs, or skip where the store cannot tell which are in use."""
    if not recorder.blobs.can_collect:
        with pytest.raises(StoreError):
            recorder.blobs.collect()
        pytest.skip("whether a blob is in use is not known here")
    return recorder.blobs.collect(candidates or None)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 9, bytes(range(256)), b"x" * 3_000_000],
    ids=["empty", "NULs", "every byte", "3 MB"],
)
def test_a_blob_comes_back_as_it_went_in(recorder: LogRecorder, other: LogRecorder, content: bytes) -> None:
    (sha,) = keep(recorder, content)

    assert other.blobs.get(sha) == content
    assert other.blobs.has(sha)


def test_blobs_are_kept_once_in_the_order_in_which_they_came(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    first = keep(recorder, b"c", b"a", b"c")
    second = keep(other, b"b", b"a")

    assert recorder.blobs.shas() == [first[0], first[1], second[0]]
    recorder.blobs.put([])
    assert len(other.blobs.shas()) == 3


@pytest.mark.parametrize(
    "odd",
    ["", "no sha", "00" * 32, "AB" * 32, "ab" * 31, "ab" * 33, "zz" * 32, "ä" * 64, "\0" * 64],
    ids=ascii,
)
def test_what_is_no_sha256_of_a_blob_has_none(recorder: LogRecorder, odd: str) -> None:
    recorder.blobs.put([("ab" * 32, b"x")])

    assert recorder.blobs.get(odd) is None
    assert not recorder.blobs.has(odd)


def test_a_blob_stays_as_long_as_who_put_it_may_still_name_it(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    one, two = keep(recorder, b"one", b"two")
    found = collected(other)
    assert (found.blobs, found.kept) == (0, 2)
    recorder.blobs.release(f"nothing but {one}".encode())

    found = collected(other)
    assert (found.blobs, found.bytes, found.kept) == (1, 3, 1)
    assert recorder.blobs.shas() == [two]


def test_a_blob_put_twice_is_released_twice(recorder: LogRecorder, other: LogRecorder) -> None:
    (sha,) = keep(recorder, b"one")
    keep(recorder, b"one")
    recorder.blobs.release(sha.encode())
    assert collected(other).blobs == 0

    recorder.blobs.release(sha.encode())
    assert collected(other).blobs == 1


def test_erased_blobs_are_gone_although_entries_name_them(recorder: LogRecorder, other: LogRecorder) -> None:
    one, two = keep(recorder, b"one", b"two")
    demo = Stream("demo")
    put(recorder, demo, "words", f"it names {one}")
    key = key_of(recorder, demo)
    blobs = {one: [(key, 3)], "ab" * 32: [(key, 3)]}

    recorder.erasure.erase(demo, [2], {key: "demo"}, {key: (3, [item("erased")])}, blobs)

    assert (other.blobs.shas(), other.blobs.get(one)) == ([two], None)
    assert keep(recorder, b"one") == [one]
    assert other.blobs.get(one) == b"one"


def by_an_entry(recorder: LogRecorder, demo: Stream, sha: str) -> None:
    put(recorder, demo, f"see {sha}, there")


def by_a_receipt(recorder: LogRecorder, demo: Stream, sha: str) -> None:
    taken(recorder, demo, Claim(0, "coder", "model", 2, 1, "key", "one", 0, f'"{sha}"'.encode()))


def by_a_draft(recorder: LogRecorder, demo: Stream, sha: str) -> None:
    recorder.drafts.add([(taken(recorder, demo, claim()).fence, f"see {sha}".encode())])


@pytest.mark.parametrize("name", [by_an_entry, by_a_receipt, by_a_draft])
def test_a_blob_that_something_names_is_not_collected(
    recorder: LogRecorder, other: LogRecorder, name: Callable[[LogRecorder, Stream, str], None]
) -> None:
    demo = Stream("demo")
    put(recorder, demo, "a")
    named, loose = leave(recorder, b"named", b"loose")
    name(recorder, demo, named)

    assert collected(other).blobs == 1
    assert recorder.blobs.shas() == [named]
    assert not other.blobs.has(loose)


def test_candidates_alone_are_collected(recorder: LogRecorder, other: LogRecorder) -> None:
    one, two = leave(recorder, b"one", b"two")

    assert collected(other, two, "00" * 32).blobs == 1
    assert recorder.blobs.shas() == [one]
    assert recorder.blobs.collect([]).blobs == 0
    assert recorder.blobs.collect([one]).bytes == 3
    assert recorder.blobs.shas() == []


def test_blobs_of_a_deleted_conversation_are_collected_and_of_another_are_not(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    one, both = leave(recorder, b"one", b"both")
    gone, stays = Stream("gone"), Stream("stays")
    put(recorder, gone, f"{one} and {both}")
    put(recorder, stays, f"{both}")
    key = key_of(recorder, gone)
    assert recorder.blobs.named_by(key) == {one, both}
    assert collected(other).blobs == 0
    recorder.conversations.delete(key, "gone")

    assert other.blobs.collect().blobs == 1
    assert recorder.blobs.shas() == [both]
    assert recorder.blobs.named_by(key) == set()


def test_a_collected_blob_can_be_kept_again(recorder: LogRecorder, other: LogRecorder) -> None:
    (sha,) = leave(recorder, b"one")
    assert collected(other).blobs == 1
    keep(other, b"one")

    assert recorder.blobs.get(sha) == b"one"


def test_more_blobs_than_one_transaction_takes_are_collected(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    leave(recorder, *(b"%d" % number for number in range(250)))

    assert collected(other)[:2] == (250, sum(len(str(number)) for number in range(250)))
    assert recorder.blobs.shas() == []


def test_of_an_entry_every_text_counts_that_looks_like_a_sha256(recorder: LogRecorder) -> None:
    demo = Stream("demo")
    shas = ["0123456789abcdef" * 4, "ab" * 32]
    put(recorder, demo, f"{shas[0]} {shas[1]} {'AB' * 32} {'cd' * 31}")

    assert recorder.blobs.named_by(key_of(recorder, demo)) == set(shas)
    assert recorder.blobs.named_by(10**9) == set()


def test_blobs_come_with_a_batch_and_with_an_export(recorder: LogRecorder, other: LogRecorder) -> None:
    one, two = sha_of(b"one"), sha_of(b"two")
    recorder.insert_batch([Share(Stream("demo"), [item(f"see {one}")], 0)], iter([(one, b"one")]))
    recorder.insert_export(
        iter([BlobContent(two, b"two"), BlobContent(one, b"one"), Continuation("x", 0, 0)])
    )

    assert other.blobs.shas() == [one, two]
    assert other.conversations.find("x") is None
    assert collected(other).blobs == 1  # what came with a batch nobody means to name any more
