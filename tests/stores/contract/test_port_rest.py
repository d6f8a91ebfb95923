"""What a store promises of conversations, claims, blobs, deletion and erasure; and of its own types."""

from __future__ import annotations

from hashlib import sha256

import pytest

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import BlobContent, Continuation, ExportPart, Stream, Which
from stenolog.domain.entry import content_hash, digest_of
from stenolog.domain.errors import ConversationExistsError, StoreError, VersionConflictError

from .given import claim, item, positions, put


@pytest.fixture
def demo(recorder: LogRecorder) -> Stream:
    stream = Stream("demo")
    put(recorder, stream, "a", "b")
    return stream


def test_conversations_are_listed_by_what_is_asked_for(recorder: LogRecorder) -> None:
    for name in ("beta", "Alpha", "gamma"):
        put(recorder, Stream(name), "a")
    put(recorder, Stream("beta"), "the latest")
    gamma = recorder.conversations.find("gamma")
    assert gamma is not None
    recorder.conversations.archive(gamma, 1)

    assert recorder.conversations.names(Which()) == ["beta", "Alpha"]
    assert recorder.conversations.names(Which(archived=True), order="newest") == ["gamma", "Alpha", "beta"]
    assert recorder.conversations.names(Which(archived=True), order="a-z") == ["Alpha", "beta", "gamma"]
    assert recorder.conversations.names(Which(archived=True), order="latest", limit=1) == ["beta"]
    assert recorder.conversations.names(Which(like="ALPH")) == ["Alpha"]
    assert recorder.conversations.names(Which(begins="b")) == ["beta"]
    assert recorder.conversations.names(Which(archived=True, before="gamma")) == ["beta", "Alpha"]
    assert (recorder.conversations.count(Which()), recorder.conversations.count(Which(archived=True))) == (
        2,
        3,
    )
    recorder.conversations.archive(gamma, None)
    assert recorder.conversations.count(Which()) == 3


def test_a_conversation_keeps_its_key_under_another_name(
    recorder: LogRecorder, other: LogRecorder, demo: Stream
) -> None:
    put(recorder, Stream("taken"), "a")
    assert demo.key is not None
    with pytest.raises(ConversationExistsError):
        recorder.conversations.rename(demo.key, "taken")
    recorder.conversations.rename(demo.key, "new")

    assert (
        other.conversations.find("new"),
        other.conversations.find("demo"),
        other.conversations.name_of(demo.key),
    ) == (demo.key, None, "new")
    assert positions(other, "new") == [1, 2, 3]


def test_what_is_deleted_is_gone_and_no_key_or_notification_comes_back(
    recorder: LogRecorder, other: LogRecorder, demo: Stream
) -> None:
    key, before, last = demo.key, recorder.deletions(), recorder.max_notification_id()
    assert key is not None
    assert last is not None
    recorder.conversations.delete(key, "demo")

    assert (other.conversations.find("demo"), other.conversations.name_of(key), positions(other, "demo")) == (
        None,
        None,
        [],
    )
    assert other.deletions() != before
    again = Stream("demo")
    put(recorder, again, "anew")
    assert again.key != key
    assert min(row.notification for row in recorder.committed(0)) > last


def test_an_effect_has_one_claim_and_fences_grow(
    recorder: LogRecorder, other: LogRecorder, demo: Stream
) -> None:
    (first,) = recorder.claims.take(demo, [claim()], 3)
    theirs = Stream("demo", demo.key)
    assert first is not None
    assert other.claims.take(theirs, [claim(owner="two"), claim("tool 3/0")], 3)[0] is None
    with pytest.raises(VersionConflictError):
        other.claims.take(theirs, [claim("another")], 2)
    second = other.claims.take_over(theirs, first, "two")
    assert second is not None
    assert second.fence > first.fence
    assert other.claims.take_over(theirs, first, "three") is None
    assert [(name, each.effect) for name, each in recorder.claims.everywhere()] == [
        ("demo", "tool 3/0"),
        ("demo", "model"),
    ]
    recorder.claims.release(second)
    assert [each.effect for each in recorder.claims.of(demo)] == ["tool 3/0"]


def test_drafts_go_with_their_claim_and_come_with_it_to_another(recorder: LogRecorder, demo: Stream) -> None:
    (taken,) = recorder.claims.take(demo, [claim()], 3)
    assert taken is not None
    recorder.drafts.add([(taken.fence, b"1"), (taken.fence, b"2"), (taken.fence + 99, b"nobody's")])
    recorder.drafts.add([(taken.fence, b"3")])
    theirs = recorder.claims.take_over(demo, taken, "two")

    assert theirs is not None
    assert (recorder.drafts.of(taken.fence), recorder.drafts.of(theirs.fence)) == ([], [b"1", b"2", b"3"])
    recorder.append([item("c")], demo, None, theirs.fence)
    assert recorder.drafts.of(theirs.fence) == []


def test_a_blob_is_kept_once_and_for_as_long_as_an_entry_names_it(
    recorder: LogRecorder, other: LogRecorder, demo: Stream
) -> None:
    kept, loose = (sha256(content).hexdigest() for content in (b"kept", b"loose"))
    recorder.blobs.put([(kept, b"kept"), (loose, b"loose"), (kept, b"kept")])
    assert recorder.blobs.shas() == [kept, loose]
    assert (other.blobs.get(kept), other.blobs.get("00" * 32), other.blobs.has("no sha")) == (
        b"kept",
        None,
        False,
    )
    if not recorder.blobs.can_collect:
        with pytest.raises(StoreError):
            recorder.blobs.collect()
        return
    assert other.blobs.collect().blobs == 0  # whoever put them lives
    (record,) = recorder.append([item(f"see {kept}")], demo, None)
    recorder.blobs.release(record.payload)
    recorder.blobs.release(loose.encode())

    assert demo.key is not None
    assert recorder.blobs.named_by(demo.key) == {kept}
    assert other.blobs.collect().blobs == 1
    assert recorder.blobs.shas() == [kept]


def test_what_is_erased_leaves_its_hash_and_every_digest_holds(
    recorder: LogRecorder, other: LogRecorder, demo: Stream
) -> None:
    key, seal_key = demo.key, recorder.seal_key
    assert key is not None
    before = recorder.select_records(demo, 0, 9)
    come_to = recorder.erasure.erase(demo, [2], {key: "demo"}, {key: (3, [item("erased")])})
    after = other.select_records(Stream("demo"), 0, 9)

    assert come_to == {key: 4}
    assert (after[1].payload, after[1].salt) == (b"", b"")
    assert after[1].erased == content_hash(before[1].salt, before[1].payload)
    assert [record.digest for record in after[:3]] == [record.digest for record in before]
    assert digest_of(after[0].digest, after[1]) == after[1].digest
    assert recorder.select_events("demo")[1].state == b""
    assert recorder.committed(0)[1].payload is None
    assert recorder.seal_key != seal_key
    streams, _, number = recorder.erasure.unfinished()
    recorder.erasure.end(number - 1)
    assert other.erasure.unfinished()[0] == streams == {key}
    recorder.erasure.end(number)
    assert other.erasure.unfinished() == (set(), set(), 0)


def test_an_erasure_that_was_decided_on_another_state_changes_nothing(
    recorder: LogRecorder, demo: Stream
) -> None:
    key = demo.key
    assert key is not None
    for having, position in (({key: "demo"}, 2), ({key: "demo", 99: "fork"}, 3)):
        with pytest.raises(VersionConflictError):
            recorder.erasure.erase(demo, [2], having, {key: (position, [item("erased")])})
    assert recorder.select_events("demo")[1].state
    assert recorder.erasure.unfinished() == (set(), set(), 0)


def test_an_export_comes_in_with_its_own_digests(recorder: LogRecorder, demo: Stream) -> None:
    records, sha = recorder.select_records(demo, 0, 9), "cd" * 32
    parts: list[ExportPart] = [BlobContent(sha, b"x"), Continuation("copy", 0, 3), *records]
    recorder.insert_export(iter(parts))

    assert recorder.select_records(Stream("copy"), 0, 9) == records
    assert recorder.blobs.get(sha) == b"x"
    with pytest.raises(VersionConflictError):
        recorder.insert_export(iter([Continuation("copy", 0, 3), *records]))
