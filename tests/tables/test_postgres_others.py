"""Other logs, other tables and long values beside those that a follower keeps in PostgreSQL."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

import stenolog
from stenolog import Entry, Log, UserMessage
from stenolog.errors import CallerError, TableError
from stenolog.tables import Follower, Table
from tests.tables.given import lines
from tests.tables.test_postgres import asked, say


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
