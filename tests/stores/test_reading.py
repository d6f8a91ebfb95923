"""Reading by ranges, in pages, and what a damaged row does to a reader."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stenolog
from stenolog import AssistantMessage, Conversation, Entry, Log, UserMessage
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.store.sqlite.statements import event_rows
from stenolog.domain.events import Damaged
from stenolog.errors import ConversationNotFoundError, CorruptLogError, PositionNotFoundError
from stenolog.events import PositionRange, Unknown
from stenolog.importers import export_jsonl, import_file
from stenolog.testing import examples
from tests.stores.conftest import said, texts


def test_a_range_is_after_one_position_and_up_to_another(conversation: Conversation) -> None:
    said(conversation, *"abcdef")

    assert texts(conversation, after=3) == ["c", "d", "e", "f"]
    assert texts(conversation, at=3) == ["a", "b"]
    assert texts(conversation, after=3, at=5) == ["c", "d"]
    assert texts(conversation, after=5, at=3) == []
    assert texts(conversation, after=99) == []
    assert texts(conversation, after=-1, at=2) == ["a"]


def test_a_conversation_without_entries_reads_as_empty(log: Log) -> None:
    assert list(log["nobody"].entries()) == []
    assert list(log["nobody"].records()) == []
    assert list(log) == []


def test_an_entry_is_found_by_its_position_and_by_its_id(log: Log, conversation: Conversation) -> None:
    appended = conversation.append(UserMessage(text="a"), id="mine")

    assert conversation.entry(appended.position) == appended
    assert conversation.entry_by_id("mine") == appended
    assert conversation.entry_by_id("nobody's") is None
    assert log["nobody"].entry_by_id("mine") is None


@pytest.mark.parametrize("position", [0, -1, 3, True, "1"])
def test_a_position_without_an_entry_is_an_error(conversation: Conversation, position: int) -> None:
    said(conversation, "a")

    with pytest.raises(PositionNotFoundError, match="expected a position from 1 to 2"):
        conversation.entry(position)


def test_a_conversation_without_entries_has_no_entry_at_any_position(log: Log) -> None:
    with pytest.raises(ConversationNotFoundError):
        log["nobody"].entry(1)


def test_a_conversation_has_a_key_that_a_new_one_of_its_name_has_not(log: Log) -> None:
    assert log["demo"].key is None
    said(log["demo"], "a")
    first = log["demo"].key
    log["demo"].rename("other")
    assert log["other"].key == first

    log["other"].delete()
    said(log["other"], "b")

    assert log["other"].key not in (None, first)


def test_what_came_from_an_exported_file_is_known_in_forks_too(
    log: Log, conversation: Conversation, tmp_path: Path
) -> None:
    said(conversation, "a", "b")
    file = tmp_path / "demo.jsonl"
    with file.open("w") as stream:
        export_jsonl(conversation, stream)
    import_file(log, file, name="copy")
    copy = log["copy"]
    said(copy, "c")

    assert conversation.imported_ranges() == log["nobody"].imported_ranges() == ()
    assert copy.imported_ranges() == (PositionRange(first=1, last=3),)
    assert copy.fork(after=2).imported_ranges() == (PositionRange(first=1, last=2),)


@settings(derandomize=True, deadline=None)
@given(pages=st.integers(1, 7), after=st.integers(0, 25), at=st.none() | st.integers(0, 25))
def test_pages_of_any_size_give_the_same_entries(pages: int, after: int, at: int | None) -> None:
    with stenolog.open(":memory:") as log, pytest.MonkeyPatch.context() as patch:
        conversation = log["demo"]
        conversation.extend([UserMessage(text=str(n)) for n in range(2, 21)])
        patch.setattr(event_rows, "PAGE", event_rows.PAGE.replace("512", str(pages)))

        expected = range(max(after, 0) + 1, min(20, 20 if at is None else at) + 1)
        assert [entry.position for entry in conversation.entries(after, at)] == list(expected)
        assert [record.position for record in conversation.records(after, at)] == list(expected)


def test_long_entries_are_read_a_few_at_a_time(
    log: Log, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_rows, "PAGE_BYTES", 1000)
    monkeypatch.setattr(event_rows, "CHUNK_ROWS", 2)
    conversation.extend([UserMessage(text="x" * 600) for _ in range(9)])

    with log.datastore.reading() as connection:
        rows = event_rows.page(connection, event_rows.WHOLE, 1, 0, 99)

    assert len(rows) == 4
    assert len(list(conversation.entries())) == 10


def test_what_is_appended_while_one_reads_is_read_too(conversation: Conversation) -> None:
    said(conversation, "a")
    reader = conversation.entries()
    next(reader)
    said(conversation, "b")

    assert [entry.position for entry in reader] == [2, 3]


def test_every_kind_of_event_is_read_back_as_it_was_written(conversation: Conversation) -> None:
    written = [*examples().values()]
    conversation.extend(written, expected=0)

    assert [entry.event for entry in conversation.entries(after=1)] == written


def test_an_event_of_a_later_release_is_kept_byte_for_byte(conversation: Conversation) -> None:
    later = Unknown(topic="user_message@7", payload=b'{"needs": "9.0", "text" : 1}', needs="9.0")
    conversation.append(later)

    (entry,) = conversation.entries(after=1)
    (record,) = conversation.records(after=1)
    assert entry.event == later
    assert (record.topic, record.payload) == (later.topic, later.payload)


class TestDamage:
    """A damaged entry costs itself: it is told in its place, and what stands around it is read."""

    @pytest.fixture
    def damaged(self, path: Path) -> Path:
        with stenolog.open(path) as log:
            said(log["demo"], "the secret word", "b", "c", "d")
        return path

    def read_after(self, path: Path, damage: str, position: int, reason: str) -> Entry:
        """Damage one entry; check that it alone is told as damaged, and that strict reading says the same."""
        with stenolog.open(path) as log:
            sound = list(log["demo"].entries())
        with sqlite3.connect(path) as connection:
            connection.execute(damage)
        connection.close()
        with stenolog.open(path) as log:
            found = list(log["demo"].entries())
            assert [*found[: position - 1], *found[position:]] == [
                *sound[: position - 1],
                *sound[position:],
            ]
            told = found[position - 1]
            assert isinstance(told.event, Damaged)
            assert re.search(reason, told.event.reason)
            assert list(log["demo"].entries(at=position - 1)) == sound[: position - 1]
            assert list(log["demo"].entries(after=position)) == sound[position:]
            with pytest.raises(CorruptLogError, match=f"'demo' at position {position}: .*{reason}") as caught:
                list(log["demo"].entries(strict=True))
            assert "secret" not in str(caught.value)
            assert "secret" not in told.event.reason
        return told

    @pytest.mark.parametrize("position", [1, 3])
    def test_a_missing_entry_is_a_gap(self, damaged: Path, position: int) -> None:
        damage = f"DELETE FROM stored_events WHERE originator_version = {position}"

        assert self.read_after(damaged, damage, position, "its row is gone").id == ""

    def test_a_word_that_was_changed_is_found_by_the_digest(self, damaged: Path) -> None:
        damage = """UPDATE stored_events SET state = cast(replace(state, 'secret', 'public') AS BLOB)
            WHERE originator_version = 2"""
        with stenolog.open(damaged) as log:
            sound = log["demo"].entry(2)

        told = self.read_after(damaged, damage, 2, "its digest is not that of its bytes")
        assert told == sound._replace(event=told.event)

    def test_what_needs_it_says_so_and_what_to_do(self, damaged: Path) -> None:
        with stenolog.open(damaged) as log:
            log["demo"].append(AssistantMessage(agent="a", text="e"))
        with sqlite3.connect(damaged) as connection:
            connection.execute("UPDATE stored_events SET state = x'00' WHERE originator_version = 4")
        connection.close()
        with stenolog.open(damaged) as log:
            demo = log["demo"]
            shown = {item.position: item for item in demo.timeline()}
            assert (shown[4].kind, shown[5].text) == ("damaged", "d")
            assert demo.state().blocked is not None
            why = "position 4 is damaged .*: fork after position 3, restore a backup, .*`stenolog db salvage`"
            with pytest.raises(CorruptLogError, match=why):
                demo.submit(UserMessage(text="on"))
            with pytest.raises(CorruptLogError, match=why):
                demo.request("a", at=6)
            fork = demo.fork(after=3)
            fork.submit(UserMessage(text="on", to=["a"]))
            assert "secret" in str(fork.request("a").body)
            assert verify(demo).problems[0].position == 4

    @pytest.mark.parametrize(
        ("column", "value"),
        [
            ("state", "x'7b7d7d'"),
            ("state", "x''"),
            ("state", "42"),
            ("state", "x'7b22706172747322'"),
            ("at", "'noon'"),
            ("at", f"{2**62}"),
            ("digest", "7"),
            ("topic", "x'ff'"),
        ],
    )
    def test_a_row_that_does_not_decode_is_named_by_its_position(
        self, damaged: Path, column: str, value: str
    ) -> None:
        damage = f"UPDATE stored_events SET {column} = {value} WHERE originator_version = 2"

        self.read_after(damaged, damage, 2, "")

    def test_text_that_is_no_utf_8_is_an_error_of_the_stored_data(self, damaged: Path) -> None:
        damage = "UPDATE stored_events SET topic = cast(x'ff' AS TEXT) WHERE originator_version = 2"

        self.read_after(damaged, damage, 2, "UTF-8")
