"""What a store promises of erasing: the words are gone everywhere at once, and every digest holds."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import LAST, Stream
from stenolog.domain.entry import GENESIS, content_hash, digest_of, effects_left, left_hash
from stenolog.domain.errors import ConversationExistsError, HeldError, InvalidEventError, VersionConflictError
from stenolog.domain.history import (
    BEGUN,
    DELETED,
    ERASED,
    EVERY_STREAM,
    Change,
    History,
    Hold,
    Newest,
    Said,
    following,
    holds_of,
    release_of,
)

from .given import fork, item, key_of, put, taken
from .inspecting import faults
from .stores import Store

SHA = "ab" * 32


@pytest.fixture
def demo(recorder: LogRecorder) -> Stream:
    stream = Stream("demo")
    put(recorder, stream, "secret one", f"secret two, in {SHA}", "three")
    return stream


def erase(recorder: LogRecorder, stream: Stream, *positions: int) -> dict[int, int]:
    """Erase entries of a stream, with a word of it in each conversation that has the first of them."""
    having = recorder.erasure.conversations_with(stream, positions[0])
    at = {key: recorder.head(Stream(name, key)).position for key, name in having.items()}
    return recorder.erasure.erase(
        stream, positions, having, {key: (at[key], [item("erased")]) for key in having}
    )


@pytest.mark.parametrize("positions", [(2,), (1,), (4,), (2, 3), (1, 2, 3, 4)], ids=str)
def test_of_erased_entries_lengths_and_hashes_stay_and_the_chain_holds(
    recorder: LogRecorder, other: LogRecorder, demo: Stream, positions: tuple[int, ...]
) -> None:
    before = recorder.select_records(demo, 0, LAST)
    assert erase(recorder, demo, *positions) == {key_of(recorder, demo): 5}
    after, digest = other.select_records(Stream("demo"), 0, LAST), GENESIS

    for record in after:
        digest = digest_of(digest, record)
        assert record.digest == digest
    for old, new in zip(before, after[:4], strict=True):
        if new.position in positions:
            erased = content_hash(old.salt, old.payload)
            left = effects_left(old.topic, old.payload)
            assert new == old._replace(salt=b"", payload=left, erased=erased)
            assert recorder.erasure.left_hash(key_of(recorder, demo), new.position) == left_hash(left)
        else:
            assert new == old
    assert (after[-1].position, after[-1].payload != b"") == (5, True)


def test_what_was_erased_is_not_erased_again(recorder: LogRecorder, demo: Stream) -> None:
    erase(recorder, demo, 2)
    before = recorder.select_records(demo, 0, LAST)
    erase(recorder, demo, 2, 3)

    after = recorder.select_records(demo, 0, LAST)
    assert after[:2] == before[:2]
    assert after[2].erased == content_hash(before[2].salt, before[2].payload)
    assert faults(recorder) == []


def test_what_is_erased_reads_as_erased_in_every_way_of_reading(recorder: LogRecorder, demo: Stream) -> None:
    mark = recorder.committed(0)[1].notification
    old = recorder.select_records(demo, 1, 2)[0]
    erase(recorder, demo, 2)
    (record,) = recorder.select_records(demo, 1, 2)
    (event,) = recorder.select_events("demo", gt=1, lte=2)
    (paged,) = recorder.select_events(demo, gt=1, lte=2, page=True)
    (notified,) = recorder.select_notifications(mark, 1)
    (committed,) = recorder.committed_at([mark])
    (_, recent, *_) = recorder.recent(demo, 1, 9)

    assert {(each.topic, each.state) for each in (event, paged, notified)} == {("erased", b"")}
    assert (committed.payload, committed.topic, committed.digest) == (None, old.topic, old.digest)
    assert recorder.record_by_id(demo, old.id) == record
    assert recent[1] == old.id
    assert recorder.header(demo, 2) == (old.id, old.time, old.digest)


def test_erased_entries_are_left_out_where_some_topics_are_asked_for(
    recorder: LogRecorder, demo: Stream
) -> None:
    erase(recorder, demo, 2)

    for page in (False, True):
        found = recorder.select_events("demo", topics=["user_message@1"], page=page)
        assert [event.originator_version for event in found] == [3, 4, 5]


def test_the_effects_of_an_erased_switch_are_read_in_every_way_of_reading(
    recorder: LogRecorder, demo: Stream
) -> None:
    (mark, topic) = next((row.notification, row.topic) for row in recorder.committed(0))
    erase(recorder, demo, 1)
    (record,) = recorder.select_records(demo, 0, 1)
    (event,) = recorder.select_events("demo", lte=1)
    (paged,) = recorder.select_events(demo, lte=1, page=True, topics=[topic])
    (notified,) = recorder.select_notifications(mark, 1)
    (committed,) = recorder.committed_at([mark])
    left = (topic, record.payload)

    assert record.payload
    assert {(each.topic, each.state) for each in (event, paged, notified)} == {left}
    assert (committed.topic, committed.payload) == left
    assert recorder.record_by_id(demo, record.id) == record
    assert faults(recorder) == []


def test_forks_that_have_the_entry_get_an_entry_of_their_own(recorder: LogRecorder, demo: Stream) -> None:
    child = fork(recorder, demo, 3, "child")
    grandchild = fork(recorder, child, 4, "grandchild")
    early = fork(recorder, demo, 1, "early")
    come_to = erase(recorder, demo, 2)

    keys = [key_of(recorder, stream) for stream in (demo, child, grandchild)]
    assert come_to == dict(zip(keys, (5, 5, 6), strict=True))
    assert recorder.head(early).position == 2
    for name in ("demo", "child", "grandchild"):
        assert recorder.select_events(name)[1].topic == "erased"


def test_an_entry_of_a_fork_itself_is_erased_there_alone(recorder: LogRecorder, demo: Stream) -> None:
    child = fork(recorder, demo, 3, "child")
    put(recorder, child, "secret of the child")

    assert erase(recorder, child, 5) == {key_of(recorder, child): 6}
    assert recorder.head(demo).position == 4


@pytest.mark.parametrize(
    "what", ["another fork", "another position", "another position of a fork", "a fork less"]
)
def test_an_erasure_decided_on_an_older_state_changes_nothing(
    recorder: LogRecorder, other: LogRecorder, demo: Stream, what: str
) -> None:
    child = fork(recorder, demo, 3, "child")
    having = recorder.erasure.conversations_with(demo, 2)
    written = {key_of(recorder, demo): (4, [item("erased")]), key_of(recorder, child): (4, [item("erased")])}
    before, seal_key = recorder.select_records(demo, 0, LAST), recorder.seal_key
    match what:
        case "another fork":
            fork(other, Stream("demo", demo.key), 2, "late")
        case "another position":
            put(other, Stream("demo"), "late")
        case "another position of a fork":
            put(other, Stream("child"), "late")
        case _:
            other.conversations.delete(key_of(recorder, child), "child")
    count = len(recorder.committed(0))

    with pytest.raises(VersionConflictError):
        recorder.erasure.erase(demo, [2], having, written)
    assert recorder.select_records(demo, 0, 4) == before
    assert len(recorder.committed(0)) == count
    assert recorder.seal_key == seal_key
    assert recorder.erasure.unfinished() == (set(), set(), 0)


def test_drafts_of_whoever_was_shown_the_words_go_with_them(recorder: LogRecorder, demo: Stream) -> None:
    child, beside = fork(recorder, demo, 3, "child"), Stream("beside")
    put(recorder, beside, "a")
    claims = [taken(recorder, stream) for stream in (demo, child, beside)]
    recorder.drafts.add([(each.fence, b"repeats secret one") for each in claims])
    erase(recorder, demo, 2)

    assert [recorder.drafts.of(each.fence) for each in claims] == [[], [], [b"repeats secret one"]]
    assert [name for name, _ in recorder.claims.everywhere()] == ["demo", "child", "beside"]


def test_each_erasure_marks_its_streams_and_blobs_until_it_is_ended(
    recorder: LogRecorder, other: LogRecorder, demo: Stream
) -> None:
    child = fork(recorder, demo, 2, "child")
    erase(recorder, demo, 2)
    first = other.erasure.unfinished()
    erase(recorder, demo, 3)
    second = other.erasure.unfinished()
    keys = {key_of(recorder, stream) for stream in (demo, child)}

    assert first[:2] == (keys, set())
    assert second[:2] == (keys, {SHA})
    assert first[2] < second[2]
    other.erasure.end(first[2])
    # The later erasure has a mark of its own on the stream of both.
    assert recorder.erasure.unfinished() == ({key_of(recorder, demo)}, {SHA}, second[2])
    recorder.erasure.end(second[2])
    assert other.erasure.unfinished() == (set(), set(), 0)


def test_the_key_of_what_stands_beside_the_log_is_another_after_an_erasure(
    recorder: LogRecorder, demo: Stream, store: Store
) -> None:
    before = recorder.seal_key
    erase(recorder, demo, 2)

    assert recorder.seal_key != before
    assert len(recorder.seal_key) == 32
    assert store.open().seal_key == recorder.seal_key


def test_the_words_are_nowhere_in_what_the_store_gives_out(recorder: LogRecorder, demo: Stream) -> None:
    erase(recorder, demo, 2, 3)
    key = key_of(recorder, demo)
    with recorder.inspect() as inspection:
        told = repr([*inspection.records(key, 0, LAST), *inspection.history()])

    assert "secret" not in told
    assert "secret" not in repr(recorder.committed(0))
    assert "secret" not in repr([*recorder.select_events("demo")])
    assert recorder.blobs.named_by(key) == set()


def test_an_erasure_is_told_by_the_history(recorder: LogRecorder, demo: Stream) -> None:
    erase(recorder, demo, 2, 4)
    with recorder.inspect() as inspection:
        changes = [change for change in inspection.history() if isinstance(change, Change)]

    assert [(change.what, change.value) for change in changes] == [(BEGUN, 0), (ERASED, 2), (ERASED, 4)]


def test_whoever_expects_the_position_before_an_erasure_is_refused(
    recorder: LogRecorder, other: LogRecorder, demo: Stream
) -> None:
    erase(other, Stream("demo", demo.key), 2)

    with pytest.raises(VersionConflictError):
        put(recorder, demo, "x", expected=4)
    assert put(recorder, demo, "x") == [6]


NOW = 1_000
SAID = Said("boss", NOW, "a case\nof two lines")


def timed(recorder: LogRecorder, stream: Stream, *times: int) -> None:
    recorder.append([item("words")._replace(time=at) for at in times], stream, None)


def held_by(recorder: LogRecorder, stream: Stream, hold: Hold, position: int, at: int) -> bool:
    """Return whether a hold covers an entry, by the words of `Hold` alone."""
    is_in_time = at > NOW - hold.age if hold.age else hold.since <= at <= (hold.until or LAST)
    if hold.stream == EVERY_STREAM or not is_in_time:
        return is_in_time
    is_fork = hold.stream in (each.key for each in recorder.lineage(stream))
    return is_fork or hold.stream in recorder.erasure.conversations_with(stream, position)


@pytest.mark.parametrize("seed", range(8))
def test_what_a_hold_covers_is_neither_erased_nor_deleted_until_its_release(
    recorder: LogRecorder, other: LogRecorder, seed: int
) -> None:
    chance = Random(seed)
    root = Stream("root")
    timed(recorder, root, 1, 400, 900)
    tree = [root]
    for nth in range(4):
        parent = chance.choice(tree)
        made = fork(recorder, parent, chance.randrange(1, recorder.head(parent).position + 1), f"fork {nth}")
        timed(recorder, made, *chance.choices(range(1, NOW), k=2))
        tree.append(made)
    keys = [EVERY_STREAM, *(key_of(recorder, each) for each in tree)]
    holds = []
    for key in chance.sample(keys, k=2):
        window = chance.choice([(0, 0, 0), (500, 0, 0), (0, 500, 0), (300, 600, 0), (0, 0, 500)])
        asked = Hold(0, key, *window, SAID)
        holds.append(asked._replace(number=recorder.erasure.note_hold(asked.record())))
    recorder.conversations.rename(keys[1], "renamed")
    tree[0] = Stream("renamed", keys[1])
    assert holds_of(other.erasure.holds()) == holds

    for is_released in (False, True):
        for stream in reversed(tree):
            own = recorder.lineage(stream)[-1].after
            times = {one.position: one.time for one in recorder.select_records(stream, own, LAST)}
            in_force = [] if is_released else holds
            held = {at for at in times for one in in_force if held_by(recorder, stream, one, at, times[at])}
            pairs = chance.sample([*combinations(times, 2)], k=min(3, len(times) - 1))
            choices: list[tuple[int, ...]] = [*pairs, *((at,) for at in times)]
            refused = set()
            for chosen in choices:
                having = recorder.erasure.conversations_with(stream, chosen[0])
                written = {
                    key: (recorder.head(Stream(name, key)).position, [item("erased")])
                    for key, name in having.items()
                }
                try:
                    other.erasure.erase(stream, chosen, having, written, {}, NOW)
                except HeldError:
                    refused.add(chosen)
            assert recorder.erasure.covered(stream, list(times), NOW).keys() == held
            assert refused == {chosen for chosen in choices if held & {*chosen}}
            if not held and len(recorder.erasure.conversations_with(stream, 0)) == 1:
                other.conversations.delete(key_of(recorder, stream), stream.name, NOW)
                tree.remove(stream)
            elif held:
                with pytest.raises((HeldError, ConversationExistsError)):
                    other.conversations.delete(key_of(recorder, stream), stream.name, NOW)
        for one in [] if is_released else holds:
            recorder.erasure.note_hold(release_of(one, SAID))
    assert faults(recorder) == []


def test_without_the_time_no_entry_is_old_enough(recorder: LogRecorder, demo: Stream) -> None:
    key = key_of(recorder, demo)
    recorder.erasure.note_hold(Hold(0, key, 0, 0, 1, SAID).record())

    with pytest.raises(HeldError, match=r"'demo' at position 1: under hold 2 by boss: a case"):
        recorder.conversations.delete(key, "demo")
    recorder.conversations.delete(key, "demo", LAST)


def test_a_blob_that_an_entry_under_hold_names_stays(recorder: LogRecorder) -> None:
    demo = Stream("demo")
    timed(recorder, demo, 1, 900)
    key = key_of(recorder, demo)
    recorder.blobs.put([(SHA, b"bytes of a request")])
    recorder.erasure.note_hold(Hold(0, key, 500, 0, 0, SAID).record())

    with pytest.raises(HeldError):
        recorder.erasure.erase(demo, [2], {key: "demo"}, {key: (3, [item("erased")])}, {SHA: [(key, 3)]}, NOW)
    assert recorder.blobs.has(SHA)
    assert erase(recorder, demo, 2)


def test_a_blob_that_another_conversation_names_stays(recorder: LogRecorder) -> None:
    demo, other = Stream("demo"), Stream("other")
    timed(recorder, demo, 1, 2)
    put(recorder, other, f"mine is {SHA}")
    key = key_of(recorder, demo)
    recorder.blobs.put([(SHA, b"bytes of a request")])

    recorder.erasure.erase(demo, [2], {key: "demo"}, {key: (3, [item("erased")])}, {SHA: [(key, 3)]}, NOW)
    assert recorder.blobs.has(SHA)


def test_only_a_hold_in_force_is_released(recorder: LogRecorder, demo: Stream) -> None:
    number = recorder.erasure.note_hold(Hold(0, EVERY_STREAM, 0, 0, 0, SAID).record())
    held = Hold(number, EVERY_STREAM, 0, 0, 0, SAID)
    for wrong in (held._replace(number=number - 1), held._replace(stream=key_of(recorder, demo))):
        with pytest.raises(InvalidEventError):
            recorder.erasure.note_hold(release_of(wrong, SAID))

    recorder.erasure.note_hold(release_of(held, SAID))

    assert holds_of(recorder.erasure.holds()) == [held._replace(released=SAID)]
    with pytest.raises(InvalidEventError):
        recorder.erasure.note_hold(release_of(held, SAID))


@pytest.mark.parametrize("on", ["demo", "its parent", "all"])
def test_a_deletion_under_hold_is_a_fault_of_the_history(recorder: LogRecorder, on: str) -> None:
    demo = Stream("demo")
    put(recorder, demo, "a")
    child = fork(recorder, demo, 2, "child")
    streams = {"demo": key_of(recorder, child), "its parent": key_of(recorder, demo), "all": EVERY_STREAM}
    recorder.erasure.note_hold(Hold(0, streams[on], 0, 0, 0, SAID).record())
    with recorder.inspect() as inspection:
        told = [each for each in inspection.history() if isinstance(each, Change)]
    history = History()
    for change in (*told, following(Newest(told[-1].number, told[-1].digest), streams["demo"], DELETED)):
        history.take(change)

    assert [fault.expected for fault in history.faults] == ["hold 3 to forbid it"]
