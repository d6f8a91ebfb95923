"""What a store promises of conversations: their names and orders, renaming, archiving, deleting."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import Cursor, Order, PendingEntry, Stream, Which
from stenolog.domain.errors import ConversationExistsError, ConversationNotFoundError, InvalidEventError

from .given import fork, key_of, positions, put, taken

HOUR = 3_600_000_000
NOT_EVERYWHERE = pytest.mark.parametrize("odd", ["a\0b", "\ud800"], ids=["a NUL", "a lone surrogate"])


def began(recorder: LogRecorder, *names: str) -> None:
    for name in names:
        put(recorder, Stream(name), "a")


def at(recorder: LogRecorder, name: str, time: int, text: bytes = b"{}") -> None:
    """Append an entry of a given time, in microseconds since 1970."""
    recorder.append(
        [PendingEntry("user_message@1", text, f"at {time}", time, b"salt", True)], Stream(name), None
    )


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("oldest", ["b", "a", "B", "ä", "a~1", "_", "Z", "😀", "é"]),
        ("newest", ["é", "😀", "Z", "_", "a~1", "ä", "B", "a", "b"]),
        ("a-z", ["B", "Z", "_", "a", "a~1", "b", "ä", "é", "😀"]),
        ("z-a", ["😀", "é", "ä", "b", "a~1", "a", "_", "Z", "B"]),
    ],
)
def test_names_are_ordered_by_their_bytes_and_not_by_a_language(
    recorder: LogRecorder, order: Order, expected: list[str]
) -> None:
    began(recorder, "b", "a", "B", "ä", "a~1", "_", "Z", "😀", "é")

    assert recorder.conversations.names(Which(), order=order) == expected
    assert recorder.conversations.names(Which(), order=order, limit=3) == expected[:3]
    assert recorder.conversations.names(Which(), order=order, limit=0) == []


@pytest.mark.parametrize(
    ("like", "expected"),
    [
        ("alpha", ["Alpha", "ALPHABET"]),
        ("ALPHA", ["Alpha", "ALPHABET"]),
        ("É", ["É"]),
        ("é", ["café"]),
        ("SS", ["a_ss"]),
        ("%", ["50%"]),
        ("_", ["a_ss"]),
        ("\\", ["back\\slash"]),
        ("a_", ["a_ss"]),
        ("%a", []),
        ("😀", ["smile 😀"]),
        ("a\0", []),
        ("\ud800", []),
        ("'", ["it's"]),
    ],
    ids=ascii,
)
def test_a_part_of_a_name_is_found_in_latin_letters_of_either_case_and_literally(
    recorder: LogRecorder, like: str, expected: list[str]
) -> None:
    began(
        recorder, "Alpha", "ALPHABET", "É", "café", "a_ss", "50%", "back\\slash", "straße", "smile 😀", "it's"
    )

    assert recorder.conversations.names(Which(like=like)) == expected
    assert recorder.conversations.count(Which(like=like)) == len(expected)


@pytest.mark.parametrize(
    ("begins", "expected"),
    [
        ("al", ["al", "alpha"]),
        ("Al", ["Alpha"]),
        ("alpha", ["alpha"]),
        ("%", ["%"]),
        ("_", []),
        ("ä", ["äöü"]),
        ("\U0010ffff", []),
        ("😀", ["😀", "😀!"]),
        ("a\0", []),
        ("\ud800", []),
    ],
    ids=ascii,
)
def test_names_that_begin_so_are_found_by_their_exact_letters(
    recorder: LogRecorder, begins: str, expected: list[str]
) -> None:
    began(recorder, "al", "Alpha", "alpha", "a", "%", "äöü", "😀", "😀!")

    assert recorder.conversations.names(Which(begins=begins)) == expected
    assert recorder.conversations.count(Which(begins=begins)) == len(expected)


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        (Which(since=2 * HOUR), ["two", "three"]),
        (Which(until=2 * HOUR), ["one", "two"]),
        (Which(since=2 * HOUR, until=2 * HOUR), ["two"]),
        (Which(since=4 * HOUR), []),
        (Which(since=2 * HOUR, like="T"), ["two", "three"]),
        (Which(since=2 * HOUR, begins="th"), ["three"]),
        (Which(before="three"), ["two"]),
        (Which(before="one"), ["two", "three"]),
        (Which(before="three", by_time=True), ["one", "two"]),
        (Which(before="two", by_time=True), ["one"]),
        (Which(before="nobody"), []),
        (Which(before="nobody", by_time=True), []),
    ],
    ids=str,
)
def test_conversations_are_selected_by_when_they_were_begun_and_last_appended_to(
    recorder: LogRecorder, which: Which, expected: list[str]
) -> None:
    for name, hour in (("two", 2), ("three", 3), ("one", 1)):
        at(recorder, name, hour * HOUR)

    assert sorted(recorder.conversations.names(which)) == sorted(expected)
    assert recorder.conversations.count(which) == len(expected)


def test_the_latest_conversation_is_the_one_whose_last_entry_is_the_newest(recorder: LogRecorder) -> None:
    for name, hour in (("b", 2), ("a", 2), ("c", 9), ("d", 1), ("c", 1)):
        at(recorder, name, hour * HOUR)

    # The last entry counts, and not the newest time; of equal times the one begun last comes first.
    assert recorder.conversations.names(Which(), order="latest") == ["a", "b", "d", "c"]


def test_a_receipt_of_an_erasure_makes_no_conversation_newer(recorder: LogRecorder) -> None:
    receipt = b'{"x":{"stenolog":{"erasure":{"positions":[2]}}}}'
    at(recorder, "old", HOUR)
    at(recorder, "new", 2 * HOUR)
    at(recorder, "old", 3 * HOUR, receipt)

    assert recorder.conversations.names(Which(), order="latest") == ["new", "old"]
    assert recorder.conversations.names(Which(since=2 * HOUR)) == ["new"]


@pytest.mark.parametrize(
    "name",
    ["x" * 500, "😀" * 200, "Ä", "a'; DROP TABLE conversations; --", '"quoted"', " ", "\n", "%s ?", "{s}"],
    ids=["500 letters", "4 bytes each", "Ä", "SQL", "quotes", "a blank", "a line feed", "holes", "braces"],
)
def test_a_name_of_any_characters_comes_back_as_it_went_in(
    recorder: LogRecorder, other: LogRecorder, name: str
) -> None:
    put(recorder, Stream(name), "a")
    key = recorder.conversations.find(name)

    assert key is not None
    assert (other.conversations.name_of(key), other.conversations.names(Which())) == (name, [name])
    assert (
        other.conversations.names(Which(begins=name[:7]))
        == other.conversations.names(Which(like=name[:7]))
        == [name]
    )
    assert [row.name for row in other.committed(0)] == [name, name]


def test_names_differ_by_case_and_by_how_an_accent_is_written(recorder: LogRecorder) -> None:
    names = ["demo", "Demo", "é", "e\u0301"]
    began(recorder, *names)

    assert len({recorder.conversations.find(name) for name in names}) == 4
    assert recorder.conversations.names(Which()) == names


@NOT_EVERYWHERE
def test_a_name_that_not_every_database_can_keep_is_refused_and_found_nowhere(
    recorder: LogRecorder, odd: str
) -> None:
    demo = Stream("demo")
    put(recorder, demo, "a")
    refused: list[Callable[[], object]] = [
        lambda: put(recorder, Stream(odd), "a"),
        lambda: recorder.conversations.rename(key_of(recorder, demo), odd),
        lambda: fork(recorder, demo, 2, odd),
    ]
    for write in refused:
        with pytest.raises(InvalidEventError):
            write()

    assert recorder.conversations.find(odd) is None
    assert recorder.resolve(Stream(odd)) is None
    assert recorder.conversations.names(Which(), order="a-z") == ["demo"]
    assert recorder.conversations.names(Which(before=odd)) == []


@NOT_EVERYWHERE
def test_an_entry_id_that_not_every_database_can_keep_is_refused_and_found_nowhere(
    recorder: LogRecorder, odd: str
) -> None:
    with pytest.raises(InvalidEventError):
        recorder.append([PendingEntry("t@1", b"{}", odd, 0, b"", True)], Stream("demo"), None)
    put(recorder, Stream("demo"), "a")

    assert recorder.record_by_id(Stream("demo"), odd) is None
    assert positions(recorder, "demo") == [1, 2]


@pytest.mark.parametrize("id", ["x" * 500, "😀" * 100, "M-1", "%", " ", "'", "ä"], ids=ascii)
def test_an_entry_id_of_any_characters_is_found_exactly(recorder: LogRecorder, id: str) -> None:
    demo = Stream("demo")
    (record,) = recorder.append([PendingEntry("t@1", b"{}", id, 0, b"", True)], demo, None)

    assert recorder.record_by_id(demo, id) == record
    assert recorder.record_by_id(demo, id.swapcase() + "x") is None


def test_renaming_to_the_name_it_has_changes_nothing_and_a_free_name_is_free_again(
    recorder: LogRecorder,
) -> None:
    began(recorder, "one", "two")
    one, two = recorder.conversations.find("one"), recorder.conversations.find("two")
    assert one is not None
    assert two is not None
    recorder.conversations.rename(one, "one")
    with pytest.raises(ConversationExistsError):
        recorder.conversations.rename(one, "two")
    recorder.conversations.rename(one, "three")
    recorder.conversations.rename(two, "one")

    assert (
        recorder.conversations.find("three"),
        recorder.conversations.find("one"),
        recorder.conversations.find("two"),
    ) == (one, two, None)
    assert recorder.conversations.name_of(one) == "three"
    assert recorder.conversations.names(Which()) == ["three", "one"]


def test_an_archived_conversation_is_read_and_appended_to_as_before(recorder: LogRecorder) -> None:
    began(recorder, "demo")
    key = recorder.conversations.find("demo")
    assert key is not None
    recorder.conversations.archive(key, 5)
    recorder.conversations.archive(key, 7)
    put(recorder, Stream("demo"), "b")

    assert positions(recorder, "demo") == [1, 2, 3]
    assert recorder.conversations.names(Which()) == []
    assert recorder.conversations.names(Which(archived=True)) == ["demo"]
    recorder.conversations.archive(key, None)
    assert recorder.conversations.names(Which()) == ["demo"]


@pytest.mark.parametrize("what", ["rename", "archive", "unarchive", "delete"])
def test_what_was_deleted_meanwhile_cannot_be_changed_and_its_history_does_not_go_on(
    recorder: LogRecorder, other: LogRecorder, what: str
) -> None:
    began(recorder, "demo")
    key = recorder.conversations.find("demo")
    assert key is not None
    other.conversations.delete(key, "demo")
    with recorder.inspect() as inspection:
        before = [*inspection.history()]

    with pytest.raises(ConversationNotFoundError):
        {
            "rename": lambda: recorder.conversations.rename(key, "new"),
            "archive": lambda: recorder.conversations.archive(key, 5),
            "unarchive": lambda: recorder.conversations.archive(key, None),
            "delete": lambda: recorder.conversations.delete(key, "demo"),
        }[what]()
    with recorder.inspect() as inspection:
        assert [*inspection.history()] == before


def test_a_deletion_takes_what_stands_beside_the_entries_and_no_blob(recorder: LogRecorder) -> None:
    demo, sha = Stream("demo"), "ab" * 32
    put(recorder, demo, f"see {sha}")
    recorder.blobs.put([(sha, b"x")])
    key = key_of(recorder, demo)
    held = taken(recorder, demo)
    recorder.drafts.add([(held.fence, b"said")])
    recorder.save_cursor("follower", Cursor(2), key)
    recorder.save_cursor("follower", Cursor(9))
    recorder.conversations.delete(key, "demo")

    assert recorder.claims.everywhere() == []
    assert recorder.drafts.of(held.fence) == []
    assert (recorder.load_cursor("follower", key), recorder.load_cursor("follower")) == (Cursor(), Cursor(9))
    assert recorder.blobs.shas() == [sha]
    assert recorder.committed(0) == []
    assert recorder.last_position(Stream("demo", key)) == 0
    assert recorder.conversations.name_of(key) is None
    put(recorder, Stream("demo"), "anew")
    assert key_of(recorder, Stream("demo")) != key


def test_forks_are_named_where_they_keep_a_conversation_from_being_deleted(recorder: LogRecorder) -> None:
    demo = Stream("demo")
    put(recorder, demo, "a")
    forks = [fork(recorder, demo, 2) for _ in range(7)]
    key = key_of(recorder, demo)

    with pytest.raises(ConversationExistsError, match=r"demo~1, demo~2, demo~3, demo~4, demo~5$"):
        recorder.conversations.delete(key, "demo")
    for each in forks:
        recorder.conversations.delete(key_of(recorder, each), each.name)
    recorder.conversations.delete(key, "demo")
    assert recorder.conversations.names(Which(archived=True)) == []


def test_each_deletion_gives_another_number(recorder: LogRecorder, other: LogRecorder) -> None:
    seen = {recorder.deletions()}
    for number in range(5):
        began(recorder, "demo")
        other.conversations.delete(key_of(other, Stream("demo")), "demo")
        seen.add(recorder.deletions())
        assert len(seen) == number + 2
    began(recorder, "more")
    assert recorder.deletions() in seen


def test_several_names_are_looked_up_at_once(recorder: LogRecorder) -> None:
    one, two = Stream("one"), Stream("zwei ä 😀")
    for stream in (one, two):
        put(recorder, stream, "a")
    recorder.conversations.archive(key_of(recorder, one), 1)

    found = recorder.conversations.find_all({"one", "zwei ä 😀", "none", "ONE"})
    assert found == {"one": key_of(recorder, one), "zwei ä 😀": key_of(recorder, two)}
    assert recorder.conversations.find_all(set()) == {}
