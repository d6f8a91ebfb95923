"""Temporary FTS5 tables: to compare an index with its source, and to mark hits."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, TypeAlias

from stenolog.adapters.store.sqlite.errors import RAISED

from .file import UNUSABLE
from .search_index import ADD, TOKENIZER, Index, IndexConnection, IndexPlace

WORDS = "CREATE VIRTUAL TABLE temp.{0} USING fts5vocab({1}, 'instance')"
# The sums differ if a word stands anywhere else.
SUMS = """SELECT term, count(*), sum(doc), sum(doc * (offset + 1)), sum(offset * offset)
    FROM temp.{0} GROUP BY term"""
"""Sums over each word's places."""
PLACES = "SELECT id, stream, position, at, kind, agent FROM entries WHERE id > ? AND id <= ? ORDER BY id"
# SQLITE_ERROR is that of a missing table.
DAMAGED = (*UNUSABLE, sqlite3.SQLITE_ERROR)
Sums: TypeAlias = dict[str, tuple[int, ...]]
Indexed: TypeAlias = tuple[int, list[tuple[int, str]], list[IndexPlace]]
"""The last notification id of a batch, the words of its entries, and their places."""


def is_sound(found: Index, agrees: Callable[[IndexConnection], bool]) -> bool:
    """Return whether a file is intact and `agrees`; call it with the file's `guard`.

    Otherwise it is deleted. True also if it cannot be read now.
    """
    try:
        connection = found.open()
        connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
        # One view of the index for all checks: other processes may go on with it meanwhile.
        connection.execute("BEGIN")
        try:
            if connection.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",) and agrees(connection):
                return True
        finally:
            connection.execute("ROLLBACK")
    except RAISED as error:
        # A locked file is no fault of the file: it counts as sound until it can be read.
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF not in DAMAGED:
            found.let_go()
            return True
    found.delete()
    return False


def holds_just(connection: IndexConnection, batches: Iterable[Indexed]) -> bool:
    """Return whether an index holds exactly these words at these places."""
    expected: Sums = {}
    before = 0
    for last, said, places in batches:
        if connection.execute(PLACES, (before, last)).fetchall() != [tuple(place) for place in places]:
            return False
        before = last
        _add_sums(expected, _indexed(said))
    if connection.execute("SELECT count(*) FROM entries WHERE id > ?", (before,)).fetchone() != (0,):
        return False
    connection.execute(WORDS.format("stenolog_words", "main, words"))
    try:
        return dict(_sums(connection, "stenolog_words")) == expected
    finally:
        connection.execute("DROP TABLE temp.stenolog_words")


def _indexed(said: list[tuple[int, str]]) -> Sums:
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.execute(f"CREATE VIRTUAL TABLE words USING fts5 (said, content = '', {TOKENIZER})")
        fresh.executemany(ADD, said)
        fresh.execute(WORDS.format("stenolog_words", "main, words"))
        return dict(_sums(fresh, "stenolog_words"))


def _sums(connection: IndexConnection, table: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    return ((term, tuple(numbers)) for term, *numbers in connection.execute(SUMS.format(table)))


def _add_sums(to: Sums, more: Sums) -> None:
    for term, numbers in more.items():
        to[term] = tuple(map(sum, zip(to.get(term, (0, 0, 0, 0)), numbers, strict=True)))


def of_texts(statement: str, match: str, said: Sequence[tuple[int, str]]) -> list[tuple[Any, ...]]:
    """Return a statement's rows over `shown`, a table of these numbered texts."""
    if not said:
        return []
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE shown USING fts5 (said, {TOKENIZER})")
        connection.executemany("INSERT INTO shown (rowid, said) VALUES (?, ?)", said)
        return connection.execute(statement, (match,)).fetchall()
