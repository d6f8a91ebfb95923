"""A table in PostgreSQL has what the log has, exactly once, wherever its follower dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import psycopg
import pytest

import stenolog
from stenolog import AssistantMessage, Entry, Log, UserMessage
from stenolog.contrib.workflow import conversation_messages
from stenolog.errors import CallerError, MissingExtraError, StoreError, TableError
from stenolog.tables import Follower, Table, attach_table
from tests.tables.given import lines, plain_sql, scores

ROOT = Path(__file__).resolve().parents[2]
LINES = "SELECT talk, at, line FROM lines ORDER BY talk, at, line"
MESSAGES = 'SELECT id, "workflowId", role, content, agent FROM conversation_messages ORDER BY 2, 4, 1'


def say(log: Log, name: str, *texts: str) -> None:
    for text in texts:
        log[name].append(UserMessage(text=text))


def asked(dsn: str, query: str) -> list[tuple[Any, ...]]:
    """Return the rows that another program reads."""
    with psycopg.connect(dsn) as connection:
        return connection.execute(query.encode()).fetchall()


def test_it_catches_up_with_what_there_is_and_then_with_what_is_new(log: Log, dsn: str) -> None:
    say(log, "demo", "one", "two\nthree")
    with Follower(log, dsn, lines, scores) as follower:
        follower.catch_up()
        first = asked(dsn, LINES)
        say(log, "demo", "four")
        log["demo"].append(AssistantMessage(agent="writer", text="ann xx"))
        follower.catch_up()

    assert first == [("demo", 2, "one"), ("demo", 3, "three"), ("demo", 3, "two")]
    assert asked(dsn, LINES) == [*first, ("demo", 4, "four")]
    assert asked(dsn, "SELECT * FROM scores") == [("demo", "ann", 2.0)]


def test_it_has_the_same_rows_as_the_table_in_the_log_after_forks_edits_renames_and_deletions(
    log: Log, dsn: str, path: Path
) -> None:
    attach_table(log, lines)
    attach_table(log, scores)
    with Follower(log, dsn, lines, scores) as follower:
        say(log, "demo", "one", "two")
        log["demo"].append(AssistantMessage(agent="writer", text="ann x"))
        follower.catch_up()
        fork = log["demo"].fork(after=3, name="fork")
        fork.append(UserMessage(text="uno", replaces=2))
        log["demo"].append(AssistantMessage(agent="writer", text="ann xxx"))
        fork.append(AssistantMessage(agent="writer", text="-ann"))
        say(log, "gone", "gone")
        follower.catch_up()
        log["gone"].delete()
        log["demo"].rename("new")
        follower.catch_up()

        for query in (LINES, "SELECT * FROM scores ORDER BY talk, mail"):
            assert asked(dsn, query) == plain_sql(path, query)
        assert len(asked(dsn, LINES)) == 4
        kept = asked(dsn, LINES)
        follower.rebuild()
        assert asked(dsn, LINES) == kept
    assert asked(dsn, "SELECT count(*) FROM lines__rows") == [(3,)]


def test_messages_have_times_and_texts_that_postgresql_takes(log: Log, dsn: str) -> None:
    say(log, "demo", "a\0b", "ü 🥐")
    with Follower(log, dsn, conversation_messages) as follower:
        follower.catch_up()

    rows = asked(dsn, 'SELECT content, "createdAt" FROM conversation_messages ORDER BY "createdAt"')
    assert [text for text, _ in rows] == ["a\ufffdb", "ü 🥐"]
    assert [at for _, at in rows] == [entry.time for entry in log["demo"].entries(after=1)]


def test_a_second_follower_of_the_same_tables_doubles_nothing(log: Log, dsn: str) -> None:
    with Follower(log, dsn, lines) as one, Follower(log, dsn, lines) as other:
        for text in ("one", "two", "three"):
            say(log, "demo", text)
            threads = [Thread(target=follower.catch_up) for follower in (one, other)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    assert [line for *_, line in asked(dsn, LINES)] == ["one", "two", "three"]


def test_a_function_that_fails_stops_its_table_and_no_other(log: Log, dsn: str) -> None:
    def fails(entry: Entry) -> list[dict[str, Any]]:
        if getattr(entry.event, "text", "") == "two":
            raise ValueError("no such line")
        return list(lines.rows(entry))  # type: ignore[arg-type]

    broken = Table("lines", columns=lines.columns, rows=fails)
    say(log, "demo", "one", "two", "three")
    with Follower(log, dsn, broken, conversation_messages) as follower:
        for _ in range(2):
            with pytest.raises(TableError, match="lines: 'demo' at position 3: ValueError: no such line"):
                follower.catch_up()
    assert asked(dsn, LINES) == [("demo", 2, "one")]
    assert len(asked(dsn, MESSAGES)) == 3

    with Follower(log, dsn, lines) as follower:
        follower.catch_up()
    assert len(asked(dsn, LINES)) == 3
    assert asked(dsn, "SELECT fault FROM stenolog_tables WHERE name = 'lines'") == [("",)]


def test_another_version_makes_it_anew_and_the_one_before_stands_aside(log: Log, dsn: str) -> None:
    other = Table("lines", columns=lines.columns, rows=lambda entry: [{"line": "new"}], version=2)
    with Follower(log, dsn, lines) as old, Follower(log, dsn, other) as new:
        say(log, "demo", "one")
        new.catch_up()
        with pytest.raises(TableError, match=r"lines: expected version 1; .* found .*version 2"):
            old.catch_up()

    assert [line for *_, line in asked(dsn, LINES)] == ["new", "new"]


def test_another_log_is_not_taken_for_the_one_before(log: Log, dsn: str, tmp_path: Path) -> None:
    say(log, "demo", "one")
    with Follower(log, dsn, lines) as follower:
        follower.catch_up()
    with stenolog.open(tmp_path / "other.db") as other, Follower(other, dsn, lines) as follower:
        say(other, "else", "two")
        with pytest.raises(TableError, match="lines: it follows another log"):
            follower.catch_up()
        follower.rebuild()

        assert asked(dsn, LINES) == [("else", 2, "two")]


def test_a_table_of_somebody_else_is_left_alone(log: Log, dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE VIEW lines AS SELECT 1 AS x")
    with pytest.raises(CallerError, match="a table of this name, which is not ours"):
        Follower(log, dsn, lines)

    assert asked(dsn, "SELECT * FROM lines") == [(1,)]


def test_without_a_server_or_a_table_it_says_so(log: Log, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="PostgreSQL: "):
        Follower(log, f"host={tmp_path} dbname=none", lines)
    with pytest.raises(CallerError, match="expected a table"):
        Follower(log, "dbname=none")


def test_without_psycopg_it_names_the_extra(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"stenolog\[postgres\]"):
        Follower(log, "dbname=none", lines)


def test_following_sees_what_other_programs_append_and_survives_a_lost_connection(
    path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stenolog.adapters.tables.postgres.WAIT", 0.05)
    with stenolog.open(path) as log, Follower(log, dsn, lines) as follower:
        following = Thread(target=follower.follow)
        following.start()
        with stenolog.open(path) as other:
            say(other, "demo", "one")
            until(lambda: len(asked(dsn, LINES)) == 1)
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(
                    """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid()"""
                )
            say(other, "demo", "two")
            until(lambda: len(asked(dsn, LINES)) == 2)
        log.close()
        following.join(60)
        assert not following.is_alive()


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    give_up = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < give_up, "it never came to be"
        time.sleep(0.01)


@contextmanager
def following(path: Path, dsn: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a follower in a process of its own, until it is killed."""
    command = [sys.executable, "-m", "tests.tables.follow", str(path), dsn]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_a_follower_killed_at_any_instant_loses_no_row_and_doubles_none(path: Path, dsn: str) -> None:
    chance, kills = Random(5), 0
    with stenolog.open(path, synchronous="normal") as log:
        attach_table(log, lines)
        attach_table(log, conversation_messages)
        for turn in range(40):  # some thousand entries to be behind with, whoever is killed
            log[f"talk {turn % 4}"].extend([UserMessage(text=f"{turn}.{n}\nmore") for n in range(100)])
        for turn in range(5):
            with following(path, dsn) as process:
                until(lambda: bool(_reached(dsn)) or process.poll() is not None)
                for n in range(20):
                    say(log, "demo", f"{turn} {n}")
                    time.sleep(chance.uniform(0, 0.01))
                kills += process.poll() is None
        with Follower(log, dsn, lines, conversation_messages) as follower:
            follower.catch_up()

    assert kills == 5
    assert asked(dsn, LINES) == plain_sql(path, LINES)
    assert len(asked(dsn, LINES)) == 40 * 100 * 2 + 100
    assert asked(dsn, MESSAGES) == plain_sql(path, MESSAGES)


def _reached(dsn: str) -> int:
    """Return the position of a follower; 0 while there are no tables."""
    if asked(dsn, "SELECT to_regclass('stenolog_tracking')") == [(None,)]:
        return 0
    ((found,),) = asked(dsn, "SELECT coalesce(max(position), 0) FROM stenolog_tracking")
    return int(found)


# Other logs, other tables and long values beside those that a follower keeps in PostgreSQL.


def test_a_shorter_log_is_not_taken_for_the_one_before(log: Log, dsn: str, tmp_path: Path) -> None:
    say(log, "demo", "secret", "secret", "secret")
    with Follower(log, dsn, lines) as follower:
        follower.catch_up()
    with stenolog.open(tmp_path / "other.db") as other:
        say(other, "other", "one")
        with Follower(other, dsn, lines) as follower:
            with pytest.raises(TableError, match="follows another log"):
                follower.catch_up()
            follower.rebuild()

    assert asked(dsn, "SELECT talk, line FROM lines") == [("other", "one")]


def test_made_anew_of_another_log_no_table_keeps_anything_of_the_first(
    log: Log, dsn: str, tmp_path: Path
) -> None:
    second = Table("second", columns=lines.columns, rows=lines.rows)
    say(log, "one", "A")
    log["one"].fork(name="two").append(UserMessage(text="B"))
    with Follower(log, dsn, lines, second) as follower:
        follower.catch_up()
    with stenolog.open(tmp_path / "other.db") as other:
        say(other, "eins", "X")
        say(other, "zwei", "Y")
        with Follower(other, dsn, lines) as follower:
            follower.rebuild()
        assert asked(dsn, "SELECT * FROM second") == []
        with Follower(other, dsn, second) as follower:
            follower.catch_up()

    for name in ("lines", "second"):
        assert asked(dsn, f"SELECT talk, line FROM {name} ORDER BY talk") == [("eins", "X"), ("zwei", "Y")]


def test_a_table_beneath_that_is_somebody_elses_is_left_alone(log: Log, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE lines__rows (x TEXT)")
        connection.execute("INSERT INTO lines__rows VALUES ('gold')")

    with pytest.raises(CallerError, match="which is not ours"):
        Follower(log, dsn, lines)
    assert asked(dsn, "SELECT x FROM lines__rows") == [("gold",)]


def test_a_key_of_any_length_and_indexes_with_long_names_are_taken(log: Log, dsn: str) -> None:
    names = [f"{'n' * 38}{n}" for n in (1, 2)]

    def rows(entry: Entry) -> list[dict[str, Any]]:
        return [dict.fromkeys(names, entry.event.text)] if isinstance(entry.event, UserMessage) else []

    long = Table("t" * 40, columns=dict.fromkeys(names, str), rows=rows, key=names[0])
    indexed = Table("indexed" * 5, columns=dict.fromkeys(names, str), rows=lambda entry: [], indexes=names)
    say(log, "demo", "k" * 9_000, "k" * 9_000)
    with Follower(log, dsn, long, indexed) as follower:
        follower.catch_up()

    assert asked(dsn, f"SELECT count(*) FROM {long.name}") == [(1,)]


def test_a_table_that_fails_does_not_end_the_follower(log: Log, dsn: str) -> None:
    def fails(entry: Entry) -> list[dict[str, Any]]:
        raise ValueError("no")

    bad = Table("bad", columns={"x": str}, rows=fails)
    say(log, "demo", "one")
    with Follower(log, dsn, bad, lines) as follower:
        thread = threading.Thread(target=follower.follow, kwargs={"timeout": 1.0})
        thread.start()
        give_up = time.monotonic() + 20
        while not asked(dsn, "SELECT 1 FROM lines") and time.monotonic() < give_up:
            time.sleep(0.02)
        say(log, "demo", "two")
        thread.join()

    assert asked(dsn, "SELECT line FROM lines ORDER BY line") == [("one",), ("two",)]
