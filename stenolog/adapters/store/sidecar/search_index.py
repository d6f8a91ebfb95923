"""Index of the words of all entries, in a disposable file of SQLite's FTS5, and queries for it.

The file has no text, only FTS5's index and each entry's place. A damaged, locked or missing index is rebuilt,
in memory if need be. Entries are known by notification id; the log knows what became of them since.

failing test        both words, anywhere in an entry
"failing test"      next to each other
fail*               words that begin so
failing OR broken   one of the two; OR joins its neighbours only
-flaky              without it, where a word begins with it
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeAlias, TypeVar, get_args
from unicodedata import normalize

from stenolog.adapters.store.contract.values import MEMORY
from stenolog.adapters.store.sqlite.errors import RAISED, to_store_error
from stenolog.adapters.store.sqlite.statements.dialect import clean_text as clean_text
from stenolog.domain.errors import InvalidEventError, StoreError
from stenolog.domain.events import Known

from .file import Sidecar

T = TypeVar("T")
TOKENIZER = "tokenize = 'unicode61 remove_diacritics 2'"
# Longer than for other files beside the log: another process holds this one for a batch at a time.
PATIENCE = 5.0
"""Seconds to wait for another process."""
# To rank every use of a common word is slow.
DEPTH = 2_000
"""The best are chosen among so many of the newest that match."""
PRAGMAS = ("journal_mode = WAL", "synchronous = NORMAL", "cache_size = -16000", "wal_autocheckpoint = 4000")
KINDS = {cls.kind: number for number, cls in enumerate(get_args(Known))}
TABLES = (
    f"CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (said, content = '', {TOKENIZER})",
    """CREATE TABLE IF NOT EXISTS entries (
        id INTEGER PRIMARY KEY, stream INTEGER, position INTEGER, at INTEGER, kind INTEGER, agent TEXT
    )""",
    """CREATE TABLE IF NOT EXISTS mark (
        id INTEGER, digest BLOB, deletions INTEGER, version TEXT, sheds INTEGER
    )""",
    "CREATE TEMP TABLE scope (stream INTEGER PRIMARY KEY, after INTEGER, upto INTEGER)",
)
ADD = "INSERT INTO words (rowid, said) VALUES (?, ?)"
REMOVE = "INSERT INTO words (words, rowid, said) VALUES ('delete', ?, ?)"
PLACE = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)"
# CROSS JOIN keeps SQLite from turning the tables round: the words must be looked up first.
NEWEST = """FROM words CROSS JOIN entries e ON e.id = words.rowid {}
    WHERE words MATCH ? {} ORDER BY words.rowid DESC"""
BEST = f"SELECT id FROM (SELECT e.id AS id, bm25(words) AS score {NEWEST} LIMIT ?) ORDER BY score, id DESC"
IN_SCOPE = """JOIN scope s ON s.stream = e.stream AND e.position > s.after AND e.position <= s.upto"""


IndexConnection: TypeAlias = sqlite3.Connection
"""The open index, for the functions here."""


class IndexPlace(NamedTuple):
    """An entry's place. `id` is its notification id, `at` microseconds since 1970."""

    id: int
    key: int
    position: int
    at: int
    kind: int
    agent: str


class End(NamedTuple):
    """The end of a log or its index: last entry's notification id and digest.

    Both are empty without entries. `deletions` changes with each deletion.
    """

    id: int = 0
    digest: bytes = b""
    deletions: int = 0


class IndexMark(NamedTuple):
    """The index's progress, and the version that made it (empty if new).

    `sheds`: the number of removals whose bytes are still in the file.
    """

    end: End = End()
    version: str = ""
    sheds: int = 0


class Stale(sqlite3.DatabaseError):
    """The file indexes another log, or another release's, or a part."""


class Index(Sidecar):
    """A log's index. If its file is unusable, it is kept in memory."""

    pragmas = PRAGMAS
    patience = PATIENCE

    def __init__(self, path: str) -> None:
        super().__init__(MEMORY if path == MEMORY else f"{path}-search", path)

    def use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call `work` with the index and return its result.

        If the file is unusable, retry with a new one, then in memory. Raises `StoreError` if this SQLite has
        no FTS5.
        """
        with self.guard:
            # Once with the file as it is, once with a new one in its place.
            for _ in range(2):
                try:
                    return work(self.open())
                except RAISED as error:
                    _check_fts5(error)
                    self.give_up(error)
            self.path = MEMORY
            try:
                return work(self.open())
            except RAISED as error:
                raise to_store_error(error, self.path) from error

    @property
    def is_there(self) -> bool:
        """True if there is an index already."""
        return self._connection is not None or (self.path != MEMORY and os.path.exists(self.path))

    def prepare(self, connection: sqlite3.Connection) -> None:
        _check_size(connection, self.path)
        for table in TABLES:
            connection.execute(table)


def _check_size(connection: sqlite3.Connection, path: str) -> None:
    """Raise `Stale` for a file that ends within a page."""
    # SQLite reads zeros there, which FTS5 takes for the end of its data. Writers write whole pages.
    # Only the size is asked for: opening and closing the file beside SQLite would give up SQLite's locks.
    (page,) = connection.execute("PRAGMA page_size").fetchone()
    with suppress(OSError):
        if path != MEMORY and os.stat(path).st_size % page:
            raise Stale("cut within a page")


def _check_fts5(error: Exception) -> None:
    if "no such module" in str(error):
        version = sqlite3.sqlite_version
        raise StoreError(f"search needs SQLite with FTS5; Python's SQLite {version} has none") from error


@contextmanager
def changing(connection: sqlite3.Connection) -> Iterator[None]:
    """Open a transaction, which is done in full or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def begin(connection: IndexConnection) -> None:
    """Begin a transaction, which `commit` or `roll_back` ends."""
    connection.execute("BEGIN IMMEDIATE")


def commit(connection: IndexConnection) -> None:
    """End a transaction."""
    connection.execute("COMMIT")


def roll_back(connection: IndexConnection) -> None:
    """Undo a transaction."""
    connection.execute("ROLLBACK")


def index_position(connection: sqlite3.Connection) -> IndexMark:
    """Return the index's progress."""
    row = connection.execute("SELECT id, digest, deletions, version, sheds FROM mark").fetchone()
    return IndexMark(End(*row[:3]), *row[3:]) if row else IndexMark()


def advance(connection: sqlite3.Connection, to: IndexMark) -> None:
    """Note how far it has come."""
    connection.execute("DELETE FROM mark")
    connection.execute("INSERT INTO mark VALUES (?, ?, ?, ?, ?)", (*to.end, *to[1:]))


def add(
    connection: sqlite3.Connection, said: Iterable[tuple[int, str]], places: Iterable[IndexPlace]
) -> None:
    """Index the words of entries, by their ids."""
    connection.executemany(ADD, said)
    connection.executemany(PLACE, places)


def remove(connection: sqlite3.Connection, said: Sequence[tuple[int, str]]) -> None:
    """Take entries out, by the very words that were indexed."""
    ids = [(id,) for id, _ in said]
    # FTS5 without content takes out whatever it is told: words that are not there would spoil the index.
    there = {
        id for (id,) in ids if connection.execute("SELECT 1 FROM entries WHERE id = ?", (id,)).fetchone()
    }
    connection.executemany(REMOVE, [(id, words) for id, words in said if id in there])
    connection.executemany("DELETE FROM entries WHERE id = ?", ids)


def shed(connection: sqlite3.Connection, sheds: int) -> None:
    """Rewrite the file so many times, so that no byte of removed words stays."""
    # FTS5 keeps removed words until its segments are merged, and SQLite keeps them in free pages.
    connection.execute("INSERT INTO words (words) VALUES ('optimize')")
    connection.execute("VACUUM")
    connection.execute("UPDATE mark SET sheds = sheds - ?", (sheds,))
    # The write-ahead log has the old pages, too.
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


class Scope(NamedTuple):
    """A conversation's streams, each with the positions that count.

    All entries are between the notification ids `first` and `last`, so no others are read.
    """

    segments: Sequence[tuple[int, int, int]]
    first: int
    last: int


class Filter(NamedTuple):
    """The entries that a search may find. `since` and `until`, inclusive, are microseconds since 1970."""

    scope: Scope | None = None
    agent: str | None = None
    kinds: Sequence[str] = ()
    since: int | None = None
    until: int | None = None


def matches(
    connection: sqlite3.Connection, expression: str, wanted: Filter, limit: int, *, by_age: bool
) -> list[int]:
    """Return ids of matching entries: best of the newest first, or newest first."""
    conditions, values = _conditions(wanted)
    if wanted.scope is not None:
        connection.execute("DELETE FROM scope")
        connection.executemany("INSERT INTO scope VALUES (?, ?, ?)", wanted.scope.segments)
    statement = f"SELECT e.id {NEWEST} LIMIT ?" if by_age else BEST
    statement = statement.format("" if wanted.scope is None else IN_SCOPE, conditions)
    # More than were asked for: the caller drops those that the log says are gone.
    found = connection.execute(statement, (expression, *values, max(limit, DEPTH)))
    return [id for (id,) in found]


def _conditions(wanted: Filter) -> tuple[str, list[Any]]:
    kinds = [KINDS[kind] for kind in wanted.kinds]
    asked: list[tuple[str, Sequence[Any] | None]] = [
        ("words.rowid BETWEEN ? AND ?", wanted.scope and wanted.scope[1:]),
        ("e.agent = ?", None if wanted.agent is None else [wanted.agent]),
        ("e.at >= ?", None if wanted.since is None else [wanted.since]),
        ("e.at <= ?", None if wanted.until is None else [wanted.until]),
        (f"e.kind IN ({', '.join('?' * len(kinds))})", kinds or None),
    ]
    given = [(condition, values) for condition, values in asked if values is not None]
    clause = "".join(f" AND {condition}" for condition, _ in given)
    return clause, [value for _, values in given for value in values]


TERM = re.compile(r'(?P<no>-(?=[\w"]))?(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+))(?P<begins>\*)?')
MOST_TERMS = 100
# Word joiner: the tokenizer takes it for a separator, and it shows nothing.
SEAM = "\u2060"
"""Follows each letter of a script that writes no blanks between words."""
# Noncharacters, which no text may hold; `folded` makes them blanks in one that has them.
BEGIN, END = "\ufdd0", "\ufdd1"
"""The characters around each hit, while it is looked for."""
# Compiled when it is first used: that takes longer than the rest of this module.
UNSPACED = (
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Japanese kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\uac00-\ud7af]"  # Korean, whose blanks stand between phrases
)
"""A pattern for a letter of a script that writes no blanks between words."""


def folded(text: str) -> str:
    """Return the text as indexed: without accents, letters of unspaced scripts separated."""
    if text.isascii():
        return text
    plain = text.replace(BEGIN, " ").replace(END, " ")
    # NFD sets accents apart, which the tokenizer drops. With each letter a word of its own, a part of an
    # unspaced sentence is found as a phrase.
    apart = normalize("NFD", re.sub(UNSPACED, rf"\g<0>{SEAM}", plain))
    # The letter й is one of its own, and no и with an accent.
    return apart.replace("и\u0306", "й").replace("И\u0306", "Й")


def unfolded(text: str) -> str:
    """Return the text as it is shown again."""
    return normalize("NFC", text.replace(SEAM, ""))


class Term(NamedTuple):
    """A word or phrase as FTS5 writes it. `is_or`: it is the word OR."""

    expression: str
    is_wanted: bool
    is_or: bool


def expression(query: str) -> str:
    """Return the query for `MATCH`. Raises `InvalidEventError` without words, or with too many."""
    terms = _checked(query)
    groups: list[list[str]] = []
    joins = False
    for term in terms:
        if term.is_wanted and not term.is_or:
            if joins and groups:
                groups[-1].append(term.expression)
            else:
                groups.append([term.expression])
        joins = term.is_or
    if not groups:
        raise InvalidEventError(f"search: expected a word to look for, found {query!r:.80}")
    wanted = " AND ".join(f"({' OR '.join(group)})" for group in groups)
    unwanted = " OR ".join(term.expression for term in terms if not term.is_wanted)
    return f"({wanted}) NOT ({unwanted})" if unwanted else wanted


def any_word(query: str) -> str:
    """Return a `MATCH` expression that any of the wanted words satisfies."""
    return " OR ".join(term.expression for term in _checked(query) if term.is_wanted and not term.is_or)


def _checked(query: str) -> list[Term]:
    terms = list(_terms(query))
    if len(terms) > MOST_TERMS:
        raise InvalidEventError(f"search: expected at most {MOST_TERMS} words, found {len(terms)}")
    return terms


def _terms(query: str) -> Iterator[Term]:
    for found in TERM.finditer(query):
        word = found["phrase"] if found["word"] is None else found["word"]
        # A term without a letter or a digit has no word for the tokenizer.
        if any(map(str.isalnum, word)):
            begins = " *" if found["begins"] or (found["word"] and word.endswith("*")) else ""
            yield Term(f'"{_plain(word)}"{begins}', not found["no"], found[0] == "OR")


def _plain(word: str) -> str:
    # NUL ends SQLite's text, and half a surrogate pair is no UTF-8.
    return folded(word.replace("\0", " ").encode(errors="replace").decode())
