"""What a table may be called and asked, and that nothing wrong with it stops an append."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import Entry, Log, UserMessage
from stenolog.errors import CallerError, TableError
from stenolog.tables import Delete, Table, attach_table
from tests.tables.given import lines


def table(rows: Callable[[Entry], Iterable[Any]] = lambda entry: (), **fields: Any) -> Table:
    return Table(**{"name": "t", "columns": {"x": str}, "rows": rows, **fields})


@pytest.mark.parametrize("name", ["stream", "position", "nth", "key", "gone", "KEY"])
def test_a_column_that_tables_have_beneath_is_refused_by_name(name: str) -> None:
    with pytest.raises(CallerError, match=f"use this name of a column themselves: '{name}'"):
        table(columns={name: str})


def test_names_that_differ_in_case_alone_are_refused() -> None:
    with pytest.raises(CallerError, match="two columns differ in case alone: a, A"):
        table(columns={"a": str, "A": str})
    with pytest.raises(CallerError, match="expected a name in lower case, found 'Orders'"):
        table(name="Orders")


def test_a_view_of_somebody_else_whose_name_differs_in_case_is_left_alone(log: Log, path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE VIEW T AS SELECT 42 AS x")
        with pytest.raises(CallerError, match="which is not ours"):
            attach_table(log, table())

        assert other.execute("SELECT x FROM T").fetchall() == [(42,)]


@pytest.mark.parametrize(
    "query", ["BEGIN", "PRAGMA query_only = OFF", "PRAGMA foreign_keys = OFF", "ATTACH ':memory:' AS other"]
)
def test_a_query_may_read_and_nothing_else(query: str) -> None:
    with stenolog.open(":memory:") as log:
        kept = attach_table(log, lines)
        with pytest.raises(CallerError, match="not authorized"):
            kept.select(query)
        log["demo"].append(UserMessage(text="one"))

        assert kept.select("SELECT line FROM lines") == [("one",)]


@pytest.mark.parametrize("given", [Delete("\ud800"), {"x": "\ud800"}, {"\ud800": "x"}, {"x": float("nan")}])
def test_no_row_however_strange_stops_an_append(log: Log, given: Any) -> None:
    kept = attach_table(
        log, table(lambda entry: [given] if isinstance(entry.event, UserMessage) else [], key="x")
    )

    log["demo"].append(UserMessage(text="one"))

    assert [entry.position for entry in log["demo"].entries()] == [1, 2]
    assert "'demo' at position 2" in kept.status().fault


def test_a_fault_in_any_words_is_told(log: Log) -> None:
    def fails(entry: Entry) -> list[Any]:
        raise ValueError("half \ud800 and \0")

    log["demo"].append(UserMessage(text="one"))
    with pytest.raises(TableError, match="ValueError: half \ufffd and \ufffd"):
        attach_table(log, table(fails))


def test_the_same_number_is_the_same_key_however_it_is_given(log: Log) -> None:
    kept = attach_table(log, table(lambda entry: [{"x": 1}, {"x": 1.0}], columns={"x": float}, key="x"))
    log["demo"].append(UserMessage(text="one"))

    assert kept.select("SELECT x FROM t") == [(1.0,)]


def test_what_a_program_without_the_table_has_appended_is_selected_too(log: Log, path: Path) -> None:
    kept = attach_table(log, lines)
    with stenolog.open(path) as other:
        other["demo"].append(UserMessage(text="one"))

    assert kept.select("SELECT line FROM lines") == [("one",)]


def test_a_table_that_was_dropped_is_not_waited_for(log: Log) -> None:
    kept = attach_table(log, lines)
    kept.drop()
    kept.drop()
    attach_table(log, lines)
    log.datastore.commit_hooks.clear()
    log["demo"].append(UserMessage(text="one"))

    with pytest.raises(TableError, match="this log does not keep it any more"):
        kept.catch_up()
