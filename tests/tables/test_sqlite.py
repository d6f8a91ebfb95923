"""A table in the log's own database has what the log has, at every commit."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, Entry, Log, UserMessage, VersionConflictError
from stenolog.errors import CallerError, TableError
from stenolog.maintenance import verify
from stenolog.tables import Delete, Table, attach_table, attached_tables
from tests.tables.given import lines, plain_sql, scores

LINES = "SELECT talk, at, line FROM lines ORDER BY talk, at"


def say(log: Log, name: str, *texts: str) -> None:
    for text in texts:
        log[name].append(UserMessage(text=text))


def test_plain_sql_sees_a_row_as_soon_as_its_append_has_returned(log: Log, path: Path) -> None:
    attach_table(log, lines)

    say(log, "demo", "one", "two\nthree")

    assert plain_sql(path, LINES) == [("demo", 2, "one"), ("demo", 3, "two"), ("demo", 3, "three")]


def test_what_was_there_before_the_table_is_in_it(log: Log, path: Path) -> None:
    say(log, "demo", "one")
    log["demo"].fork(after=2, name="other").append(UserMessage(text="two"))

    attach_table(log, lines)

    assert plain_sql(path, LINES) == [("demo", 2, "one"), ("other", 2, "one"), ("other", 4, "two")]


def test_what_a_program_without_the_table_appends_is_caught_up_with_the_next_append(
    log: Log, path: Path
) -> None:
    kept = attach_table(log, lines)
    with stenolog.open(path) as other:
        say(other, "demo", "one")
        other["demo"].fork(name="fork")
    assert kept.status().behind == 3

    say(log, "demo", "two")

    assert kept.status().behind == 0
    assert plain_sql(path, LINES) == [("demo", 2, "one"), ("demo", 3, "two"), ("fork", 2, "one")]


def test_an_append_that_is_refused_leaves_no_row(log: Log, path: Path) -> None:
    attach_table(log, lines)
    say(log, "demo", "one")

    with pytest.raises(VersionConflictError):
        log["demo"].append(UserMessage(text="late"), expected=1)

    assert plain_sql(path, LINES) == [("demo", 2, "one")]


def test_an_append_that_is_repeated_by_its_id_makes_its_row_once(log: Log, path: Path) -> None:
    attach_table(log, lines)
    for _ in range(3):
        log["demo"].append(UserMessage(text="one"), id="mine")

    assert plain_sql(path, LINES) == [("demo", 2, "one")]


def test_eight_threads_that_write_at_once_lose_no_row_and_double_none(log: Log, path: Path) -> None:
    attach_table(log, lines)
    together = Barrier(8)

    def write(n: int) -> None:
        together.wait(60)
        say(log, "demo", *(f"{n}.{turn}" for turn in range(10)))

    threads = [Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    found = [line for _, _, line in plain_sql(path, LINES)]
    assert sorted(found) == sorted(f"{n}.{turn}" for n in range(8) for turn in range(10))
    assert found == [e.event.text for e in log["demo"].entries() if isinstance(e.event, UserMessage)]


def test_the_rows_of_an_edit_take_the_place_of_those_of_what_it_edits(log: Log, path: Path) -> None:
    attach_table(log, lines)
    say(log, "demo", "one\nmore", "two")
    log["demo"].append(UserMessage(text="uno", replaces=2))
    log["demo"].append(UserMessage(text="ein", replaces=4))
    log["demo"].append(UserMessage(text="zwei", replaces=3))
    log["demo"].append(UserMessage(text="", replaces=3))

    assert plain_sql(path, LINES) == [("demo", 5, "ein")]


def test_a_fork_copies_no_row_and_shows_what_stood_where_it_was_made(log: Log, path: Path) -> None:
    attach_table(log, lines)
    say(log, "demo", "one", "two")
    fork = log["demo"].fork(after=3, name="fork")
    before = plain_sql(path, "SELECT count(*) FROM lines__rows")
    fork.append(UserMessage(text="uno", replaces=2))
    log["demo"].append(UserMessage(text="ein", replaces=2))
    say(log, "demo", "three")

    assert before == [(2,)]
    assert plain_sql(path, LINES) == [
        ("demo", 3, "two"),
        ("demo", 4, "ein"),
        ("demo", 5, "three"),
        ("fork", 3, "two"),
        ("fork", 5, "uno"),
    ]


def test_what_the_parent_does_after_a_fork_changes_nothing_in_the_fork(log: Log, path: Path) -> None:
    attach_table(log, lines)
    attach_table(log, scores)
    parent = log["demo"]
    say(log, "demo", "one")
    parent.append(AssistantMessage(agent="writer", text="ann x"))
    fork = parent.fork(after=3, name="fork")
    parent.append(UserMessage(text="uno", replaces=2))
    parent.append(AssistantMessage(agent="writer", text="ann xxx"))
    fork.append(UserMessage(text="two", replaces=4))  # its own position 4, and not the parent's edit of 2

    assert plain_sql(path, "SELECT * FROM scores ORDER BY talk") == [
        ("demo", "ann", 3.0),
        ("fork", "ann", 1.0),
    ]
    assert plain_sql(path, LINES) == [("demo", 4, "uno"), ("fork", 2, "one"), ("fork", 5, "two")]


def test_a_fork_of_a_fork_shows_no_more_of_the_first_than_the_second_does(log: Log, path: Path) -> None:
    attach_table(log, lines)
    say(log, "a", "one", "two", "three", "four")
    log["a"].fork(after=2, name="b").append(UserMessage(text="of b"))
    log["b"].fork(after=4, name="c").append(UserMessage(text="of c"))
    log["b"].fork(after=1, name="d").append(UserMessage(text="of d"))

    found = {
        name: [line for conversation, _, line in plain_sql(path, LINES) if conversation == name]
        for name in "bcd"
    }
    assert found == {"b": ["one", "of b"], "c": ["one", "of b", "of c"], "d": ["of d"]}


def test_a_key_is_put_in_the_place_of_itself_and_can_be_deleted(log: Log, path: Path) -> None:
    attach_table(log, scores)
    for text in ("ann x", "bob xx", "ann xxx", "-bob", "cid x", "-cid", "cid xx"):
        log["demo"].append(AssistantMessage(agent="writer", text=text))
    log["other"].append(AssistantMessage(agent="writer", text="ann xxxx"))

    found = plain_sql(path, "SELECT * FROM scores ORDER BY talk, mail")

    assert found == [("demo", "ann", 3.0), ("demo", "cid", 2.0), ("other", "ann", 4.0)]


def test_a_rename_and_a_deletion_by_any_program_show_at_once(log: Log, path: Path) -> None:
    attach_table(log, lines)
    say(log, "demo", "one")
    say(log, "other", "two")
    with stenolog.open(path) as elsewhere:
        elsewhere["demo"].rename("new")
        elsewhere["other"].delete()

    assert plain_sql(path, LINES) == [("new", 2, "one")]
    assert plain_sql(path, "SELECT count(*) FROM lines__rows") == [(1,)]


def test_a_table_that_is_kept_again_goes_on_where_it_was(path: Path) -> None:
    seen: list[int] = []

    def noted(entry: Entry) -> list[dict[str, Any]]:
        seen.append(entry.position)
        return []

    table = Table("noted", columns={"x": int}, rows=noted)
    for name in ("one", "two"):
        with stenolog.open(path) as log:
            assert attach_table(log, table) is attach_table(log, table)
            say(log, "demo", name)

    assert seen == [1, 2, 3]


@pytest.mark.parametrize(
    "other",
    [
        Table("lines", columns=lines.columns, rows=lambda entry: [{"line": "new"}], version=2),
        Table("lines", columns={"line": str}, rows=lambda entry: [{"line": "new"}]),
    ],
    ids=["version", "columns"],
)
def test_another_version_or_other_columns_make_the_table_anew(path: Path, other: Table) -> None:
    with stenolog.open(path) as log:
        attach_table(log, lines)
        say(log, "demo", "one")
    with stenolog.open(path) as log:
        attach_table(log, other)

        assert plain_sql(path, "SELECT line FROM lines") == [("new",), ("new",)]


def test_a_program_with_the_version_before_stands_aside(log: Log, path: Path) -> None:
    kept = attach_table(log, lines)
    with stenolog.open(path) as newer:
        attach_table(newer, Table("lines", columns={"line": str}, rows=lines.rows, version=2))
        say(log, "demo", "one")
        say(newer, "demo", "two")

        assert plain_sql(path, "SELECT line FROM lines") == [("one",), ("two",)]
        with pytest.raises(TableError, match=r"lines: expected version 1; .*; found .*version 2"):
            kept.select("SELECT * FROM lines")


def failing(on: str) -> Table:
    """Return a table like `lines`, with a function that fails on one message."""

    def rows(entry: Entry) -> list[dict[str, Any]]:
        if getattr(entry.event, "text", "") == on:
            raise ValueError("no such line")
        return list(lines.rows(entry))  # type: ignore[arg-type]

    return Table("lines", columns=lines.columns, rows=rows)


def test_a_function_that_fails_stops_its_table_and_never_an_append(log: Log, path: Path) -> None:
    kept, other = attach_table(log, failing("two")), attach_table(log, scores)
    say(log, "demo", "one", "two", "three")
    log["demo"].append(AssistantMessage(agent="writer", text="ann x"))

    assert log["demo"].position == 5
    assert plain_sql(path, LINES) == [("demo", 2, "one")]
    assert kept.status() == ("lines", 3, "'demo' at position 3: ValueError: no such line")
    assert other.select("SELECT mail FROM scores") == [("ann",)]
    for asked in (lambda: kept.select(LINES), kept.catch_up, kept.rebuild):
        with pytest.raises(TableError, match=r"lines: 'demo' at position 3: ValueError: no such line"):
            asked()


@pytest.mark.parametrize("error", [sqlite3.OperationalError("locked"), OSError("gone"), RecursionError()])
def test_whatever_a_function_raises_is_its_own_fault(log: Log, error: Exception) -> None:
    def fails(entry: Entry) -> list[dict[str, Any]]:
        raise error

    kept = attach_table(log, Table("failing", columns={"x": int}, rows=fails))
    say(log, "demo", "one")

    assert log["demo"].position == 2
    with pytest.raises(TableError, match=type(error).__name__):
        kept.catch_up()


def test_a_table_goes_on_where_it_failed_once_its_function_is_mended(path: Path) -> None:
    with stenolog.open(path) as log:
        attach_table(log, failing("two"))
        say(log, "demo", "one", "two", "three")
    with stenolog.open(path) as log:
        kept = attach_table(log, lines)

        assert kept.select(LINES) == [("demo", 2, "one"), ("demo", 3, "two"), ("demo", 4, "three")]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"line": 1}, "lines.line: expected str, found int"),
        ({"lin": "x"}, "lines: no such column: lin"),
        ({"talk": "x"}, "lines: no such column: talk"),
        (Delete("x"), "lines: Delete needs a table with a key"),
        ({"line": "\ud800"}, "UnicodeEncodeError"),
    ],
)
def test_what_is_no_row_of_the_table_is_a_fault_of_its_function(
    log: Log, row: dict[str, Any] | Delete, why: str
) -> None:
    say(log, "demo", "one")
    with pytest.raises(TableError, match=f"lines: 'demo' at position 1: .*{why}"):
        attach_table(log, Table("lines", columns=lines.columns, rows=lambda entry: [row]))


def test_a_row_without_its_key_is_a_fault_too(log: Log) -> None:
    say(log, "demo", "one")
    with pytest.raises(TableError, match="expected a row with its key 'mail', found none"):
        attach_table(
            log, Table("scores", columns=scores.columns, rows=lambda entry: [{"score": 1}], key="mail")
        )


@pytest.mark.parametrize("name", ["conversations", "a b", "stenolog_x", "", 'a"b', "9", "Tracking"])
def test_a_name_that_the_log_uses_or_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(CallerError):
        Table(name, columns={"x": str}, rows=lambda entry: [])


@pytest.mark.parametrize("options", [{"key": "y"}, {"indexes": ["y"]}, {"columns": {"x": list}}])
def test_a_table_that_contradicts_itself_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(CallerError):
        Table(**{"name": "t", "columns": {"x": str}, "rows": lambda entry: [], **options})


def test_a_table_of_somebody_else_is_left_alone(log: Log, path: Path) -> None:
    with log.datastore.writing() as connection:
        connection.execute("CREATE TABLE lines (x)")

    with pytest.raises(CallerError, match="a table of this name, which is not ours"):
        attach_table(log, lines)


def test_two_tables_of_one_name_in_one_log_are_refused(log: Log) -> None:
    attach_table(log, lines)
    with pytest.raises(CallerError, match="keeps another table of this name"):
        attach_table(log, failing("x"))


def test_a_query_can_change_nothing(log: Log) -> None:
    kept = attach_table(log, lines)
    for query, why in {
        "DELETE FROM lines__rows": "not authorized",
        "SELECT x": "no such column",
        "?": "error",
    }.items():
        with pytest.raises(CallerError, match=why):
            kept.select(query)
    say(log, "demo", "one")

    assert kept.select("SELECT line FROM lines WHERE at > ?", 1) == [("one",)]


def test_a_table_whose_rows_somebody_dropped_fails_and_is_made_anew(log: Log, path: Path) -> None:
    kept = attach_table(log, lines)
    with log.datastore.writing() as connection:
        connection.execute("DROP TABLE lines__rows")
    say(log, "demo", "one")

    assert "no such table" in kept.status().fault
    kept.rebuild()
    assert plain_sql(path, LINES) == [("demo", 2, "one")]


def test_tables_are_listed_whoever_keeps_them_until_they_are_dropped(log: Log, path: Path) -> None:
    assert attached_tables(log) == []
    attach_table(log, lines)
    kept = attach_table(log, scores)
    with stenolog.open(path) as other:
        assert attached_tables(other) == [("lines", 0, ""), ("scores", 0, "")]
        kept.drop()
        say(log, "demo", "one")
        assert attached_tables(other) == [("lines", 0, "")]


def test_a_log_with_tables_is_verified_as_before_and_backed_up_with_them(
    log: Log, path: Path, tmp_path: Path
) -> None:
    attach_table(log, lines)
    say(log, "demo", "one")
    log.backup(tmp_path / "copy.db")

    with stenolog.open(tmp_path / "copy.db") as copy:
        assert verify(copy).ok
        assert plain_sql(tmp_path / "copy.db", LINES) == [("demo", 2, "one")]


def test_an_append_of_more_than_one_transaction_takes_is_made_up_for(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stenolog.adapters.tables.sqlite.AT_ONCE", 4)
    monkeypatch.setattr("stenolog.adapters.tables.sqlite.PAGE", 2)
    kept = attach_table(log, lines)
    log["demo"].extend([UserMessage(text=f"{n}") for n in range(9)])
    assert kept.status().behind == 6

    say(log, "demo", "next")
    assert kept.status().behind == 3
    kept.catch_up()

    assert [line for (line,) in kept.select("SELECT line FROM lines")] == [*map(str, range(9)), "next"]


def test_tables_in_memory_are_kept_too() -> None:
    with stenolog.open(":memory:") as log:
        kept = attach_table(log, lines)
        say(log, "demo", "one")

        assert kept.select(LINES) == [("demo", 2, "one")]
