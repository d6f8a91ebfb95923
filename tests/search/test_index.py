"""The index: beside the log, caught up when somebody searches, and never needed."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stenolog
from stenolog import Conversation, Log, ToolResult, UserMessage
from stenolog.adapters.conversation.search import indexing
from stenolog.adapters.store.sidecar import search_index
from stenolog.adapters.store.sqlite.statements import conversation_rows
from stenolog.adapters.store.sqlite.statements.dialect import shared
from stenolog.errors import StoreError
from tests.search.conftest import places
from tests.stores.conftest import said

Counted = Callable[[], int]


def test_a_search_indexes_what_is_new(log: Log, conversation: Conversation, indexed: Counted) -> None:
    said(conversation, *["a needle"] * 10)
    assert len(log.search("needle")) == 10
    assert indexed() == 11

    log.search("needle")
    assert indexed() == 0
    said(log["other"], "another needle")
    assert len(log.search("needle")) == 11
    assert indexed() == 2


def test_what_is_long_or_many_is_indexed_in_batches(
    log: Log, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "BATCH_ROWS", 64)
    said(conversation, *["a needle"] * 200)
    come: list[int] = []

    assert len(log.search("needle", limit=500, progress=come.append)) == 200
    assert come == [64, 128, 192, 201]


def test_appending_writes_nothing_into_it(path: Path) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "a needle")
        log["demo"].state()

        assert not path.with_name(f"{path.name}-search").exists()


def test_an_entry_that_is_damaged_or_erased_is_not_found_and_stops_nobody(path: Path) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "needle 2", "needle 3", "needle 4", "needle 5")
        with log.datastore.writing() as connection:
            for change in ("state = x'7b'", "erased = x'00', state = x'', salt = x''"):
                connection.execute(
                    f"UPDATE stored_events SET {change} WHERE rowid = ?", (3 + ("er" in change),)
                )
        assert places(log, "needle") == [("demo", 2), ("demo", 5)]


def test_what_is_erased_after_it_was_indexed_is_not_found(path: Path) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "needle 2", "needle 3")
        assert len(log.search("needle")) == 2
        with log.datastore.writing() as connection:
            connection.execute("UPDATE stored_events SET erased = x'00', state = x'' WHERE rowid = 2")

        assert places(log, "needle") == [("demo", 3)]


@pytest.mark.parametrize("deleted", ["demo", "other"])
def test_of_a_deleted_conversation_no_word_is_in_the_file_after_the_next_search(
    path: Path, deleted: str
) -> None:
    beside = [path.with_name(f"{path.name}-search{end}") for end in ("", "-wal")]

    def holds(word: bytes) -> bool:
        return any(word in file.read_bytes() for file in beside if file.exists())

    with stenolog.open(path) as log:
        for name in ("demo", "other"):
            said(log[name], f"the {name}secret", *["hay"] * 50)
        assert len(log.search("demosecret OR othersecret")) == 2
        assert holds(f"{deleted}secret".encode())
        log[deleted].delete()
        left = "other" if deleted == "demo" else "demo"

        assert places(log, "demosecret OR othersecret") == [(left, 2)]
        assert not holds(f"{deleted}secret".encode())
        assert holds(f"{left}secret".encode())


def test_deleting_indexes_nothing_anew(path: Path, indexed: Counted) -> None:
    with stenolog.open(path) as log:
        for name in ("one", "two", "three"):
            said(log[name], *["needle"] * 10)
        log.search("needle")
        log["three"].delete()
        indexed()

        assert len(log.search("needle", limit=100)) == 20
        assert indexed() == 0


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["say", "say", "say", "fork", "delete", "rename", "search"]), st.integers(0, 3)
    ),
    max_size=30,
)


@given(STEPS)
def test_whatever_happens_to_a_log_a_search_finds_what_stands_in_it(steps: list[tuple[str, int]]) -> None:
    with stenolog.open(":memory:") as log:
        for number, (step, which) in enumerate(steps):
            names = log.names()
            conversation = log[names[which % len(names)] if names and step != "say" else f"talk {which}"]
            if step == "search":
                log.search("needle")
            elif step == "say" or not names:
                said(conversation, f"needle {number}")
            elif step == "fork":
                conversation.fork()
            elif step == "rename":
                conversation.rename(f"named {number}")
            elif not any(name.startswith(f"{conversation.name}~") for name in names) and not _has_forks(
                log, conversation
            ):
                conversation.delete()

        standing = {
            (name, entry.position)
            for name in log
            for entry in log[name].entries()
            if isinstance(entry.event, UserMessage)
        }
        assert {
            place for name in log for place in places(log, "needle", limit=99, conversation=name)
        } == standing
        assert set(places(log, "needle", limit=999)) <= standing


def _has_forks(log: Log, conversation: Conversation) -> bool:
    with log.datastore.reading() as connection:
        return bool(conversation.stream.key and shared.forks(connection, conversation.stream.key))


def put_back(copy: Path, path: Path) -> None:
    """Replace a log by hand and give up its note, so that the old index stays beside it."""
    shutil.move(copy, path)
    path.with_name(f"{path.name}-lock").unlink()


class TestOnDisk:
    """The file beside the log may be deleted, damaged, locked or stale at any time."""

    @pytest.fixture
    def beside(self, path: Path) -> Path:
        with stenolog.open(path) as log:
            said(log["demo"], *["a needle"] * 50)
            log.search("needle")
        return path.with_name(f"{path.name}-search")

    def found(self, path: Path) -> int:
        with stenolog.open(path) as log:
            return len(log.search("needle", limit=1000))

    def test_it_is_there_when_the_log_is_opened_again(
        self, path: Path, beside: Path, indexed: Counted
    ) -> None:
        assert beside.exists()
        assert self.found(path) == 50
        assert indexed() == 0

    def test_it_holds_no_text(self, path: Path, beside: Path) -> None:
        assert b"a needle" not in beside.read_bytes()

    def test_deleting_it_costs_only_time(self, path: Path, beside: Path, indexed: Counted) -> None:
        beside.unlink()

        assert self.found(path) == 50
        assert indexed() == 51

    @pytest.mark.parametrize(
        "content", [b"", b"no database at all" * 100, b"SQLite format 3\0" + b"x" * 5000]
    )
    def test_a_damaged_one_is_made_anew(
        self, path: Path, beside: Path, content: bytes, indexed: Counted
    ) -> None:
        beside.write_bytes(content)

        assert self.found(path) == 50
        indexed()
        assert self.found(path) == 50
        assert indexed() == 0

    def test_one_whose_pages_are_damaged_is_made_anew(self, path: Path, beside: Path) -> None:
        content = bytearray(beside.read_bytes())
        content[4096:] = b"\xaa" * (len(content) - 4096)
        beside.write_bytes(content)

        assert self.found(path) == 50

    @pytest.mark.parametrize("cut", [1, 700, 4000])
    def test_one_that_is_cut_within_a_page_is_made_anew(self, path: Path, beside: Path, cut: int) -> None:
        """SQLite takes what is missing for zeros."""
        with stenolog.open(path) as log:
            log["demo"].extend([UserMessage(text=f"a needle, {number}") for number in range(400)])
            log.search("needle")
        os.truncate(beside, beside.stat().st_size - cut)

        assert self.found(path) == 450
        assert beside.stat().st_size % 4096 == 0

    def test_one_that_another_log_writes_to_is_not_taken_for_cut(
        self, path: Path, beside: Path, indexed: Counted
    ) -> None:
        with stenolog.open(path) as one:
            for number in range(10):
                said(one["demo"], f"a needle, {number}")
                one.search("needle")
                indexed()
                assert self.found(path) == 51 + number
                assert indexed() == 0

    def test_one_of_another_log_is_made_anew(self, path: Path, beside: Path) -> None:
        for each in path.parent.glob("talks.db*"):
            if each != beside:
                each.unlink()
        with stenolog.open(path) as log:
            said(log["demo"], *["other words"] * 200)

            assert log.search("needle") == []
            assert len(log.search("words", limit=1000)) == 200

    def test_one_of_a_log_that_was_set_back_is_made_anew(self, path: Path, beside: Path) -> None:
        with stenolog.open(path) as log:
            log.backup(path.with_name("before.db"))
            said(log["demo"], "a lost needle")
            assert len(log.search("lost")) == 1
        put_back(path.with_name("before.db"), path)

        with stenolog.open(path) as log:
            assert log.search("lost") == []
            said(log["demo"], *["another needle"] * 3)
            assert len(log.search("needle", limit=1000)) == 53

    @pytest.mark.parametrize("deleted", [["a"], ["a", "b"]])
    @pytest.mark.parametrize("deleted_there", [[], ["c"]])
    def test_what_comes_back_with_a_backup_is_found(
        self, path: Path, deleted: list[str], deleted_there: list[str]
    ) -> None:
        """The newest entry is the same before and after; what was deleted differs."""
        copy = path.with_name("copy.db")
        with stenolog.open(path) as log:
            for name in "abcb":
                said(log[name], f"a needle in {name}")
            log.search("needle")
            log.backup(copy)
            for name in deleted:
                log[name].delete()
        with stenolog.open(copy) as log:
            for name in deleted_there:
                log[name].delete()
        put_back(copy, path)

        with stenolog.open(path) as log:
            standing = [("a", 2), ("b", 2), ("b", 3)] + [("c", 2)] * (not deleted_there)
            assert places(log, "needle") == standing
            said(log["d"], "another needle")
            assert places(log, "needle") == [*standing, ("d", 2)]

    def test_one_of_another_release_is_made_anew(
        self, path: Path, beside: Path, indexed: Counted, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(indexing, "__version__", "99.0")

        assert self.found(path) == 50
        assert indexed() == 51

    @pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
    def test_one_that_another_process_holds_is_done_without(
        self, path: Path, beside: Path, lock: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(search_index.Index, "patience", 0.01)
        holder = sqlite3.connect(beside, isolation_level=None)
        holder.execute(lock)

        with stenolog.open(path) as log:
            said(log["demo"], "a new needle")
            assert len(log.search("needle", limit=1000)) == 51
            log["demo"].delete()
            assert log.search("needle") == []
        holder.close()

    def test_a_place_that_cannot_be_written_is_done_without(self, path: Path) -> None:
        path.with_name(f"{path.name}-search").mkdir()

        with stenolog.open(path) as log:
            said(log["demo"], "a needle")
            assert len(log.search("needle")) == 1
            log["demo"].delete()
            assert log.search("needle") == []

    def test_a_conversation_that_was_deleted_elsewhere_is_not_found(self, path: Path, beside: Path) -> None:
        """By a release that knows of no index, say."""
        with stenolog.open(path) as log:
            said(log["other"], "a needle")
            with log.datastore.writing() as connection:
                conversation_rows.delete(connection, 1)

            assert places(log, "needle") == [("other", 2)]

    def test_threads_and_other_logs_on_the_file_find_the_same(self, path: Path, beside: Path) -> None:
        counts: list[int] = []

        def looking(log: Log) -> None:
            for _ in range(5):
                said(log["demo"], "a needle")
                counts.append(len(log.search("needle", limit=1000)))

        with stenolog.open(path) as one, stenolog.open(path) as other:
            threads = [threading.Thread(target=looking, args=(log,)) for log in (one, one, other, other)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

            assert len(counts) == 20
            assert len(one.search("needle", limit=1000)) == len(other.search("needle", limit=1000)) == 70


def test_where_sqlite_has_no_fts5_the_error_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [table.replace("fts5", "fts99") for table in search_index.TABLES]
    monkeypatch.setattr(search_index, "TABLES", tables)

    with stenolog.open(path) as log:
        said(log["demo"], "a needle")
        with pytest.raises(StoreError, match="needs SQLite with FTS5"):
            log.search("needle")
        log["demo"].delete()


def test_a_blob_that_is_gone_takes_only_its_own_words_along(log: Log, conversation: Conversation) -> None:
    sha = log.blobs.put(b"a needle in the whole")
    conversation.append(ToolResult(call_id="c1", text="a preview", blob=sha))
    assert len(log.search("needle")) == 1
    with log.datastore.writing() as connection:
        connection.execute("DELETE FROM blobs")

    assert log.search("needle") == []
    assert len(log.search("preview")) == 1


def test_the_best_are_chosen_among_the_newest(log: Log, conversation: Conversation, monkeypatch: Any) -> None:
    monkeypatch.setattr(search_index, "DEPTH", 3)
    said(conversation, "needle", *["needle and hay"] * 5)

    assert [hit.position for hit in log.search("needle", limit=3)] == [7, 6, 5]
    assert len(log.search("needle", limit=10)) == 6


def test_a_closed_log_is_not_searched(path: Path) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "a needle")

    with pytest.raises(StoreError, match="was closed"):
        log.search("needle")
