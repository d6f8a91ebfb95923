"""The history of a log: names, forks, archiving and deletions are a chain; the head of the log covers all."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from threading import Event, Thread

import pytest

import stenolog
from stenolog import Entry, Log
from stenolog.adapters.conversation.verifying import one_conversation
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.conversation.verifying.report import Report
from stenolog.adapters.store.sqlite.statements import schema
from stenolog.adapters.store.sqlite.turn import durable_head
from stenolog.domain.lanes.state import State
from stenolog.domain.lanes.step import Transition, step
from stenolog.errors import CorruptLogError
from stenolog.events import PositionRange
from tests.stores.conftest import said, texts


@pytest.fixture
def head(path: Path) -> str:
    """Return the head of a log of several conversations, kept elsewhere."""
    with stenolog.open(path) as log:
        said(log["demo"], "a", "b")
        said(log["zeta"], "c")
        log["demo"].fork(after=2, name="branch")
        log["zeta"].archive()
        report = verify(log)
        assert report.ok
    return report.head


def changed(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA foreign_keys = OFF")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    durable_head.forget(path)


def checked(path: Path, head: str | None = None) -> Report:
    with stenolog.open(path) as log:
        return verify(log, head=head)


SWAP = (
    "UPDATE conversations SET name = 'q' WHERE name = 'demo'",
    "UPDATE conversations SET name = 'demo' WHERE name = 'zeta'",
    "UPDATE conversations SET name = 'zeta' WHERE name = 'q'",
)
DELETE = (
    "DELETE FROM stored_events WHERE originator_id = 2",
    "DELETE FROM conversations WHERE stream = 2",
)


@pytest.mark.parametrize(
    "edits",
    [
        SWAP,
        DELETE,
        ("UPDATE conversations SET name = 'other' WHERE name = 'zeta'",),
        ("UPDATE conversations SET archived_at = NULL",),
        ("UPDATE conversations SET archived_at = 1 WHERE name = 'demo'",),
        ("UPDATE conversations SET name = 'ze' || char(27) || '[2J' WHERE name = 'zeta'",),
        ("UPDATE conversations SET name = CAST(name AS BLOB) WHERE name = 'zeta'",),
        ("UPDATE conversations SET fork_position = x'03' WHERE name = 'branch'",),
        ("UPDATE conversations SET fork_position = NULL WHERE name = 'branch'",),
        ("UPDATE conversations SET parent = NULL WHERE name = 'branch'",),
        ("UPDATE conversations SET parent = 2 WHERE name = 'branch'",),
        ("UPDATE conversations SET parent = 'x' WHERE name = 'branch'",),
        ("UPDATE conversations SET archived_at = x'00' WHERE name = 'demo'",),
        ("DELETE FROM stored_events WHERE rowid = (SELECT max(rowid) FROM stored_events)",),
        ("DELETE FROM history WHERE number = 2",),
        ("DELETE FROM history WHERE number = 4",),
        ("UPDATE history SET name = 'other' WHERE number = 1",),
        ("UPDATE history SET name = CAST(name AS BLOB) WHERE number = 1",),
        ("UPDATE history SET what = 'deleted' WHERE number = 4",),
        ("DELETE FROM history",),
    ],
)
def test_what_is_changed_past_the_log_is_a_fault_and_never_raised(
    head: str, path: Path, edits: tuple[str, ...]
) -> None:
    changed(path, *edits)

    assert {p.code for p in checked(path).problems} & {"history", "unreadable"}
    assert not checked(path, head).ok


def test_what_an_earlier_release_noted_of_imports_is_a_record_of_the_history(path: Path) -> None:
    shutil.copy(Path(__file__).parents[1] / "golden" / "0.1.0-imported.db", path)

    with stenolog.open(path) as log, log.datastore.writing() as connection:
        assert [log[name].imported_ranges() for name in log] == [(span(1, 3),), (span(1, 5),)]
        records = connection.execute("SELECT stream, parent, value FROM history WHERE what = 'imported'")
        assert records.fetchall() == [(1, 1, 3), (2, 1, 5)]
        assert not connection.execute("SELECT 1 FROM tracking WHERE name = 'imported'").fetchall()
    changed(path, "DELETE FROM history WHERE what = 'imported' AND stream = 1")

    assert "history" in {p.code for p in checked(path).problems}


def span(first: int, last: int) -> PositionRange:
    return PositionRange(first=first, last=last)


def test_one_conversation_is_checked_against_the_history_too(head: str, path: Path) -> None:
    changed(path, *SWAP)

    with stenolog.open(path) as log:
        assert [p.code for p in verify(log["demo"]).problems] == ["history"]


def test_a_chain_that_was_written_anew_is_found_with_the_head_alone(head: str, path: Path) -> None:
    changed(path, *DELETE, "DELETE FROM history")
    with stenolog.open(path) as log, log.datastore.writing() as connection:
        for statement in schema.FILLED.values():
            statement(connection)

    assert checked(path).ok
    (problem,) = checked(path, head).problems
    assert (problem.code, problem.expected) == ("head", head)


def test_a_head_kept_earlier_still_stands_in_a_log_that_has_grown(head: str, path: Path) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "more")
        said(log["new"], "first")
        log["demo"].rename("renamed")
        log["zeta"].unarchive()
        log["new"].delete()
        assert verify(log, head=head).ok
        assert verify(log, head=f" {head.upper()}\n").ok
        later = verify(log).head
    assert later != head
    assert checked(path, later).ok


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE stored_events SET rowid = rowid + 100 WHERE originator_id = 2",
        "DELETE FROM stored_events WHERE originator_id = 1 AND originator_version = 3",
        "DELETE FROM history WHERE number > 3",
    ],
)
def test_a_log_that_was_cut_is_found_with_its_head(head: str, path: Path, edit: str) -> None:
    changed(path, edit)

    assert "head" in {p.code for p in checked(path, head).problems}


def test_a_head_of_before_a_deletion_is_not_provable_and_says_so(head: str, path: Path) -> None:
    with stenolog.open(path) as log:
        log["zeta"].delete()
        (problem,) = verify(log, head=head).problems
        assert problem.code == "head"
        assert "deleted since" in problem.found
        assert verify(log, head=verify(log).head).ok


def test_the_head_of_another_log_does_not_stand_in_this_one(head: str, path: Path, tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "other.db") as other:
        said(other["demo"], "a", "b")
        assert not verify(other, head=head).ok
        number, newest, _ = head.split("-")
        assert not verify(other, head=f"{number}-{newest}-{'0' * 64}").ok


def test_a_deleted_conversation_leaves_no_name_in_the_history(path: Path) -> None:
    with stenolog.open(path) as log:
        said(log["customer-4711"], "a")
        log["customer-4711"].rename("customer-4712")
        log["customer-4712"].delete()
        assert verify(log).ok
        with log.datastore.reading() as connection:
            rows = connection.execute("SELECT name, salt FROM history").fetchall()
    assert set(rows) == {("", b"")}


def test_a_name_that_is_erased_from_the_history_of_a_living_conversation_is_found(
    head: str, path: Path
) -> None:
    changed(path, "UPDATE history SET erased = zeroblob(32), name = '', salt = x'' WHERE number = 1")

    assert "history" in {p.code for p in checked(path).problems}


def test_what_is_written_by_the_librarys_recorder_stands_in_the_history_too(path: Path) -> None:
    from stenolog.adapters.store.contract.application import Recorded
    from stenolog.adapters.store.sqlite.application import SqliteLogApplication

    with SqliteLogApplication(env={"SQLITE_DBNAME": str(path)}) as application:
        application.save(Recorded("demo", 1, stenolog.UserMessage(text="a")))
    assert checked(path).ok


def test_a_file_of_an_earlier_version_gets_its_history_when_it_is_opened(path: Path) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "a")
        log["demo"].fork(name="branch")
        log["branch"].archive()
    changed(path, "DROP TABLE history", "DROP TABLE secret", "PRAGMA user_version = 3")

    with stenolog.open(path) as log:
        report = verify(log)
        assert report.ok
        assert report.head.startswith("3-")
        assert texts(log["demo"]) == ["a"]


def test_names_and_forks_of_odd_types_are_damage_to_who_reads(path: Path) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "a")
        log["demo"].fork(name="branch")
    changed(path, "UPDATE conversations SET fork_position = x'03' WHERE name = 'branch'")
    with stenolog.open(path) as log, pytest.raises(CorruptLogError, match="fork position"):
        texts(log["branch"])

    changed(path, "UPDATE conversations SET name = x'64656d6f' WHERE name = 'demo'")
    with stenolog.open(path) as log, pytest.raises(CorruptLogError, match="names as text"):
        log.names()


def test_verify_of_nested_forks_folds_each_entry_once(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    folded = []

    def counting(state: State, entry: Entry) -> tuple[State, tuple[Transition, ...]]:
        folded.append(entry.position)
        return step(state, entry)

    monkeypatch.setattr(one_conversation, "step", counting)
    conversation = log["demo"]
    said(conversation, "a")
    for _ in range(30):
        conversation = conversation.fork()

    assert verify(log).ok
    assert len(folded) == conversation.position
    assert [one.entries for one in verify(log).conversations] == [2, *[1] * 30]


def test_a_log_that_others_write_to_meanwhile_is_sound(path: Path) -> None:
    with stenolog.open(path) as log, stenolog.open(path) as other:
        said(log["demo"], "a")
        stop = Event()

        def writing() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                said(other[f"c{number}"], "b")
                other[f"c{number}"].rename(f"d{number}")
                if number % 3:
                    other[f"d{number}"].delete()

        writer = Thread(target=writing)
        writer.start()
        try:
            reports = [verify(log) for _ in range(20)]
        finally:
            stop.set()
            writer.join()
    assert [report.problems for report in reports] == [()] * 20


@pytest.mark.parametrize(
    "statements",
    [
        (
            "UPDATE history SET salt = CAST(salt || x'6465' AS BLOB), name = 'mo' WHERE name = 'demo'",
            "UPDATE conversations SET name = 'mo' WHERE name = 'demo'",
        ),
        (
            "UPDATE history SET salt = substr(salt, 1, 15), name = 'A' || name WHERE name = 'demo'",
            "UPDATE conversations SET name = 'Ademo' WHERE name = 'demo'",
        ),
    ],
)
def test_a_name_and_its_salt_are_told_apart(
    path: Path, statements: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.urandom", lambda size: b"A" * size)
    with stenolog.open(path) as log:
        said(log["demo"], "a")
        head = verify(log).head
    monkeypatch.undo()
    changed(path, *statements)

    assert not checked(path, head).ok


ELSEWHERE = """INSERT INTO stored_events
    (originator_id, originator_version, entry_id, at, topic, salt, digest, state)
    SELECT 3, {position}, 'elsewhere', at, topic, salt, digest, state FROM stored_events LIMIT 1"""


@pytest.mark.parametrize("position", ["-1", "0", "1", "2", str(2**62 + 1), "'x'"])
def test_an_entry_at_a_position_that_its_conversation_cannot_have_is_found(
    head: str, path: Path, position: str
) -> None:
    changed(path, ELSEWHERE.format(position=position))  # searches and tables read the log by other ways

    assert not checked(path, head).ok


TRIGGER = "CREATE TRIGGER {name} AFTER INSERT ON stored_events BEGIN SELECT 1; END"
LISTED = ("CREATE TABLE stenolog_tables (name)", "INSERT INTO stenolog_tables VALUES ('listed')")


@pytest.mark.parametrize("name", ["theirs", "listed", "stenolog_inherit"])
def test_a_file_with_a_trigger_of_somebody_else_is_refused(path: Path, name: str) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "a")
        changed(path, *LISTED, TRIGGER.format(name=name))
        report = verify(log)

    assert f"the schema of {name}" in str(report.problems)
    with pytest.raises(CorruptLogError, match=name):
        stenolog.open(path)


ENDLESS = "CREATE VIEW {} AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT x FROM c"


@pytest.mark.parametrize(
    "edits",
    [
        ("ALTER TABLE {0} RENAME TO kept", ENDLESS),
        ("ALTER TABLE {0} RENAME TO kept", ENDLESS.replace("{}", "{1}")),
        ("ALTER TABLE {0} ADD COLUMN more GENERATED ALWAYS AS (zeroblob(1000000000))",),
        ("ALTER TABLE {0} RENAME TO kept", "CREATE VIRTUAL TABLE {0} USING fts5 (stream, name)"),
    ],
)
@pytest.mark.parametrize("table", ["conversations", "stored_events", "history", "tracking"])
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_file_whose_tables_are_views_or_computed_is_refused_before_one_is_read(
    path: Path, edits: tuple[str, ...], table: str, is_killed: bool
) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "a")
        # With a write-ahead log and a note beside it, as a killed process leaves them.
        theirs = path.with_name("theirs.db")
        for part in ("", "-wal", "-lock") if is_killed else ():
            shutil.copy(f"{path}{part}", f"{theirs}{part}")
    if not is_killed:
        shutil.copy(path, theirs)
    connection = sqlite3.connect(theirs)
    for edit in edits:
        connection.execute(edit.format(table, table.upper()))
    connection.commit()
    for part in ("", "-wal") if is_killed else ():
        shutil.copy(f"{theirs}{part}", f"{theirs}{part}-kept")
    connection.close()
    for part in ("", "-wal") if is_killed else ():
        Path(f"{theirs}{part}-kept").rename(f"{theirs}{part}")

    with pytest.raises(CorruptLogError, match=f"(?i)expected the tables of stenolog.*{table}"):
        stenolog.open(theirs)


@pytest.mark.parametrize("statement", [TRIGGER.format(name="theirs"), "CREATE VIEW theirs AS SELECT 1"])
def test_the_check_of_one_conversation_looks_at_the_schema_too(path: Path, statement: str) -> None:
    with stenolog.open(path) as log:
        said(log["demo"], "a")
        changed(path, statement)
        report = verify(log["demo"], head=log["demo"].digest)

    assert [problem.code for problem in report.problems] == ["file"]


def test_the_head_of_an_empty_log_stands_in_what_it_becomes(path: Path) -> None:
    with stenolog.open(path) as log:
        head = verify(log).head
        said(log["demo"], "a")
        assert verify(log, head=head).ok
