"""A log in PostgreSQL that was changed behind its back: `verify` and `check log` tell each change."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Any

import psycopg
import pytest

import stenolog
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.conversation.verifying.report import Report
from stenolog.adapters.store.contract.values import Cursor
from stenolog.errors import StoreTimeoutError
from stenolog.events import UserMessage
from tests.forked import python
from tests.postgres.server import EACH_VERSION, Server

Damage = Callable[..., Report]
PICTURE = b"a picture"
Found = set[tuple[str, int, str, str]]


@pytest.fixture(params=EACH_VERSION)
def address(request: pytest.FixtureRequest, postgres: Callable[[str], Server]) -> Iterator[str]:
    with postgres(request.param).schema() as found:
        yield found


@pytest.fixture
def log(address: str) -> Iterator[stenolog.Log]:
    """Return a log of two conversations, the second a fork of the first at 3, and of a blob."""
    with stenolog.open(address) as log:
        for text in "abcd":
            log["demo"].append(UserMessage(text=text))
        log["demo"].fork(after=3, name="fork").append(UserMessage(text="e"))
        log.blobs.put(PICTURE)
        yield log


def change(address: str, *statements: str) -> None:
    """Run statements as somebody does who knows the database and not stenolog."""
    server, _, schema = address.rpartition("&schema=")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"SET search_path TO {schema}".encode())
        for statement in statements:
            connection.execute(statement.encode())


@pytest.fixture
def damage(log: stenolog.Log, address: str) -> Damage:
    """Change the log, and check it."""

    def changed(*statements: str, head: str | None = None) -> Report:
        change(address, *statements)
        return verify(log, head=head)

    return changed


def found(report: Report) -> Found:
    return {(p.conversation, p.position, p.pointer, p.code) for p in report.problems}


def files(report: Report) -> list[str]:
    """Return what is told of the database as a whole."""
    return [problem.found for problem in report.problems if problem.code == "file"]


AT = "stream = (SELECT stream FROM conversations WHERE name = 'demo') AND position = {}"
TWO, THREE, LAST = (AT.format(position) for position in (2, 3, 5))
SWAPPED = f"""UPDATE stored_events AS e SET state = o.state, salt = o.salt, topic = o.topic, at = o.at
    FROM stored_events AS o WHERE e.stream = o.stream AND e.position + o.position = 5
        AND e.{THREE.replace("position = 3", "e.position IN (2, 3)")}"""


def test_a_log_that_nobody_touched_has_no_problem_and_a_head_that_stands_later(
    damage: Damage, log: stenolog.Log
) -> None:
    before = verify(log)
    log["demo"].append(UserMessage(text="more"))
    log["fork"].rename("branch")
    after = verify(log, head=before.head)

    assert (before.problems, after.problems) == ((), ())
    assert before.head != after.head
    assert [(c.conversation, c.position) for c in after.conversations] == [("demo", 6), ("branch", 5)]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (f"UPDATE stored_events SET state = 'x' WHERE {TWO}", {("demo", 2, "/digest", "digest")}),
        (f"DELETE FROM stored_events WHERE {TWO}", {("demo", 3, "/position", "gap")}),
        (SWAPPED, {("demo", 2, "/digest", "digest"), ("demo", 3, "/digest", "digest")}),
        (
            "UPDATE conversations SET name = 'o' WHERE name = 'fork'",
            {("o", 0, "/conversations/2", "history")},
        ),
        ("UPDATE history SET name = 'o' WHERE number = 2", {("", 0, "/history/2", "history")}),
        ("UPDATE blobs SET bytes = 'other'", {("", 0, f"/blobs/{sha256(PICTURE).hexdigest()}", "blob")}),
        (f"DELETE FROM stored_events WHERE {LAST}", {("demo", 0, "/head", "unreadable")}),
        ("UPDATE conversations SET head = 9 WHERE name = 'demo'", {("demo", 0, "/head", "unreadable")}),
        ("UPDATE conversations SET digest = '' WHERE name = 'fork'", {("fork", 0, "/digest", "unreadable")}),
        ("UPDATE conversations SET last_at = 1 WHERE name = 'demo'", {("demo", 0, "/last_at", "unreadable")}),
    ],
    ids=["payload", "removed", "swapped", "name", "history", "blob", "tail", "head", "digest", "time"],
)
def test_each_change_is_told_where_it_is(damage: Damage, statement: str, expected: Found) -> None:
    assert expected <= found(damage(statement))


def test_a_tail_that_was_cut_off_with_all_that_repeats_it_is_told_by_the_head_alone(
    damage: Damage, log: stenolog.Log
) -> None:
    head = verify(log).head
    digest = log["demo"].entry(4).digest
    cut = (
        f"DELETE FROM stored_events WHERE {LAST}",
        f"""UPDATE conversations SET (head, digest, last_at) = (SELECT position, digest, at
            FROM stored_events WHERE {AT.format(4)}) WHERE name = 'demo'""",
    )

    assert damage(*cut).problems == ()
    assert {code for *_, code in found(damage(head=head))} == {"head"}
    assert verify(log["demo"], head=digest).ok


def test_a_conversation_that_was_taken_out_with_its_history_is_told_by_the_head_alone(
    damage: Damage, log: stenolog.Log
) -> None:
    head = verify(log).head
    taken = (
        "DELETE FROM stored_events WHERE stream = 2",
        "DELETE FROM conversations WHERE stream = 2",
        "DELETE FROM history WHERE stream = 2",
    )

    assert damage(*taken).problems == ()
    assert {code for *_, code in found(damage(head=head))} == {"head"}


def test_entries_of_no_conversation_are_told(damage: Damage) -> None:
    report = damage("DELETE FROM conversations WHERE name = 'fork'")

    assert files(report) == ["stored_events has rows of stream 2, which is no conversation"]
    assert ("fork", 0, "/conversations/2", "history") in found(report)


def test_a_cursor_in_a_conversation_that_was_deleted_meanwhile_is_no_fault(log: stenolog.Log) -> None:
    key = log.recorder.conversations.find("fork") or 0
    log["fork"].delete()
    log.recorder.save_cursor("a follower", Cursor(4), key)

    assert verify(log).problems == ()


CODE = (
    (
        "CREATE FUNCTION c(BYTEA) RETURNS BOOLEAN LANGUAGE sql AS 'SELECT true'; "
        "ALTER TABLE stored_events ADD CONSTRAINT odd CHECK (c(state))",
        "the constraint odd",
    ),
    (
        "CREATE FUNCTION d() RETURNS BIGINT LANGUAGE sql AS 'SELECT NULL::bigint'; "
        "ALTER TABLE stored_events ALTER size SET DEFAULT d()",
        "the default of size",
    ),
    (
        "CREATE FUNCTION i(BYTEA) RETURNS INT IMMUTABLE LANGUAGE sql AS 'SELECT 1'; "
        "CREATE INDEX odd ON stored_events (i(state))",
        "the index odd, which computes",
    ),
    (
        "CREATE FUNCTION p(BYTEA) RETURNS BOOLEAN IMMUTABLE LANGUAGE sql AS 'SELECT true'; "
        "CREATE INDEX odd ON stored_events (stream) WHERE p(state)",
        "the index odd, which computes",
    ),
    (
        "CREATE TABLE other (id BIGINT PRIMARY KEY); INSERT INTO other SELECT stream FROM conversations; "
        "ALTER TABLE stored_events ADD CONSTRAINT odd FOREIGN KEY (stream) REFERENCES other",
        "the constraint odd",
    ),
    (
        "CREATE FUNCTION s(BYTEA) RETURNS INT IMMUTABLE LANGUAGE sql AS 'SELECT 1'; "
        "CREATE STATISTICS odd ON (s(state)) FROM stored_events",
        "the statistics odd, which compute",
    ),
    ("ALTER TABLE stored_events SET UNLOGGED", "no write-ahead log"),
    ("CREATE TABLE kid () INHERITS (stored_events)", "the child table kid"),
)
CODE_IDS = ("check", "default", "computed", "partial", "foreign key", "statistics", "unlogged", "child")
"""What runs code at each append, or moves rows where no unique key reaches."""


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DROP TABLE tracking", "the table tracking is missing"),
        ("ALTER TABLE claims ADD COLUMN more INT", "claims.more: expected no such column, found integer"),
        ("ALTER TABLE history ALTER name DROP NOT NULL", "history.name: expected text not null, found text"),
        (
            "ALTER TABLE drafts ALTER number TYPE BIGINT",
            "drafts.number: expected integer not null, found bigint not null",
        ),
        (
            "ALTER TABLE stored_events DROP CONSTRAINT stored_events_stream_entry_id_key",
            "the table stored_events has no unique index on stream, entry_id",
        ),
        (
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'stored_events_pkey'::regclass",
            "the table stored_events has no unique index on stream, position",
        ),
        (
            "CREATE RULE quiet AS ON DELETE TO stored_events DO INSTEAD NOTHING",
            "the table stored_events has the rule quiet, which this release does not make",
        ),
        (
            "CREATE TRIGGER odd BEFORE INSERT ON stored_events "
            "EXECUTE FUNCTION suppress_redundant_updates_trigger()",
            "the table stored_events has the trigger odd, which this release does not make",
        ),
        (
            "ALTER TABLE stored_events ENABLE ROW LEVEL SECURITY",
            "the table stored_events has policies over its rows, which this release does not make",
        ),
        *(
            (statement, f"the table stored_events has {what}, which this release does not make")
            for statement, what in CODE
        ),
    ],
    ids=["table", "column", "empty", "type", "index", "half", "rule", "trigger", "policy", *CODE_IDS],
)
def test_tables_that_this_release_did_not_make_are_told(damage: Damage, statement: str, told: str) -> None:
    assert told in files(damage(statement))


def test_a_table_beside_the_log_is_nobodys_fault(damage: Damage) -> None:
    assert damage("CREATE TABLE mine (i INT)").ok


def test_an_index_that_lacks_a_row_is_told_where_amcheck_is_installed(
    damage: Damage, log: stenolog.Log, address: str
) -> None:
    index = "(SELECT 'stored_events_stream_entry_id_key'::regclass)"
    change(address, f"UPDATE pg_index SET indisready = false WHERE indexrelid = {index}")
    with stenolog.open(address) as another:
        another["demo"].append(UserMessage(text="not in the index"))
    change(address, f"UPDATE pg_index SET indisready = true WHERE indexrelid = {index}")

    assert files(damage()) == []
    try:
        report = damage("CREATE EXTENSION amcheck SCHEMA public")
        (told,) = files(report)
        assert told.startswith("stored_events_stream_entry_id_key: heap tuple")
    finally:
        change(address, "DROP EXTENSION amcheck")


def test_what_amcheck_finds_whole_is_no_problem(damage: Damage, address: str) -> None:
    try:
        assert damage("CREATE EXTENSION amcheck SCHEMA public").ok
    finally:
        change(address, "DROP EXTENSION amcheck")


def test_the_end_of_the_server_is_no_fault_of_the_log(log: stenolog.Log, address: str) -> None:
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    with log.recorder.inspect() as inspection, inspection.at_one_moment():
        change(address, end)
        with pytest.raises(StoreTimeoutError, match="went away"):
            list(inspection.records(1, 0, 9))


def test_a_check_that_the_server_leaves_alone_is_an_error_and_no_report(
    log: stenolog.Log, address: str
) -> None:
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"

    def cut(entries: Iterable[Any], *_: object) -> Iterable[Any]:
        change(address, end)
        return entries

    with pytest.raises(StoreTimeoutError, match="went away"):
        verify(log["demo"], watch=cut)
    assert verify(log["demo"]).ok


def check(address: str, *arguments: str) -> tuple[int, str]:
    command: list[Any] = python("-m", "stenolog", "check", "log", "--db", address, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_command_tells_a_change_and_is_green_before_it(log: stenolog.Log, address: str) -> None:
    head = verify(log).head
    before = check(address, "--head", head)
    change(address, f"UPDATE stored_events SET state = '{{}}' WHERE {TWO}")
    after = check(address)

    assert before[0] == 0, before
    assert after[0] == 1
    assert "demo" in after[1]
    assert "/digest" in after[1]


def test_several_processes_check_a_log_together(log: stenolog.Log, address: str) -> None:
    change(address, f"UPDATE stored_events SET state = 'x' WHERE {TWO}")

    assert found(verify(log, jobs=2)) == found(verify(log))
