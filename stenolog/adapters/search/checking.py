"""Comparing the search index with the log that it was made from."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import TypeAlias

from stenolog.adapters.store import search_index
from stenolog.adapters.store.errors import RAISED
from stenolog.adapters.store.handle import LogHandle
from stenolog.adapters.store.search_index import TOKENIZER
from stenolog.adapters.store.sidecar import UNUSABLE
from stenolog.domain.errors import StenologError

from . import indexing
from .indexing import BEHIND, Source

WORDS = "CREATE VIRTUAL TABLE temp.{0} USING fts5vocab({1}, 'instance')"
SUMS = """SELECT term, count(*), sum(doc), sum(doc * (offset + 1)), sum(offset * offset)
    FROM temp.{0} GROUP BY term"""
"""Sums over each word's places, which differ if the word stands anywhere else."""
PLACES = "SELECT id, stream, position, at, kind, agent FROM entries WHERE id > ? AND id <= ? ORDER BY id"
DAMAGED = (*UNUSABLE, sqlite3.SQLITE_ERROR)
"""The last for a table that is missing."""
Sums: TypeAlias = dict[str, tuple[int, ...]]


def check(log: LogHandle) -> bool:
    """Return whether the index agrees with the log. One that does not is deleted; the next search makes it.

    True also where there is none, and where it cannot be read just now.
    """
    found = log.index
    if not found.is_there:
        return True
    with found.turn:
        try:
            connection = found.open()
            connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
            connection.execute("BEGIN")  # others may go on with it meanwhile
            try:
                if _agrees(Source(log.datastore, log.blobs), connection):
                    return True
            finally:
                connection.execute("ROLLBACK")
        except StenologError:  # the log cannot be read: there is nothing to compare with
            return True
        except RAISED as error:
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF not in DAMAGED:
                found.let_go()
                return True
        found.delete()
        return False


def _agrees(source: Source, connection: sqlite3.Connection) -> bool:
    mark = search_index.index_position(connection)
    if mark.version != indexing.version():  # new, or another release's: the next search makes it anew
        return True
    if connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
        return False
    expected: Sums = {}
    last = 0
    while rows := [row for row in indexing.page(source, BEHIND, last) if row.id <= mark.end.id]:
        said, places = indexing.worded(source, rows)
        if connection.execute(PLACES, (last, rows[-1].id)).fetchall() != [tuple(place) for place in places]:
            return False
        last = rows[-1].id
        _add(expected, _indexed(said))
    if connection.execute("SELECT count(*) FROM entries WHERE id > ?", (last,)).fetchone() != (0,):
        return False
    connection.execute(WORDS.format("stenolog_words", "main, words"))
    try:
        return dict(_sums(connection, "stenolog_words")) == expected
    finally:
        connection.execute("DROP TABLE temp.stenolog_words")


def _indexed(said: list[tuple[int, str]]) -> Sums:
    """Return the sums of some entries' words, indexed afresh."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.execute(f"CREATE VIRTUAL TABLE words USING fts5 (said, content = '', {TOKENIZER})")
        fresh.executemany(search_index.ADD, said)
        fresh.execute(WORDS.format("stenolog_words", "main, words"))
        return dict(_sums(fresh, "stenolog_words"))


def _sums(connection: sqlite3.Connection, table: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    return ((term, tuple(numbers)) for term, *numbers in connection.execute(SUMS.format(table)))


def _add(to: Sums, more: Sums) -> None:
    for term, numbers in more.items():
        to[term] = tuple(map(sum, zip(to.get(term, (0, 0, 0, 0)), numbers, strict=True)))
