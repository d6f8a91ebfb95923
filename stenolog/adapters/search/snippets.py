"""Snippets of search results: a few words around each hit, which is marked."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import takewhile
from typing import Any, NamedTuple
from unicodedata import category

from stenolog.adapters.store.search_index import TOKENIZER

from .query import BEGIN, END, any_word, expression, unfolded

WORDS = 20
LONGEST = 240
"""Characters: a snippet of longer words is cut."""
CUT = "…"
LONG = 4_000
"""Characters: `snippet()` and `highlight()` of FTS5 take the square of the hits, so no text is longer."""
OVERLAP = 500
"""Characters that two windows of a long text share, so that a phrase is whole in one of them."""
FIRST_BLANK = re.compile(r"\s")
LAST_BLANK = re.compile(r"\s\S*\Z")
MATCHES = "SELECT rowid FROM shown WHERE shown MATCH ?"
SNIPPET = (
    f"SELECT rowid, snippet(shown, 0, '{BEGIN}', '{END}', '{CUT}', {WORDS}) FROM shown WHERE shown MATCH ?"
)


class Snippet(NamedTuple):
    """A few words on one line. `marks`: the first character of each hit, and the one behind it."""

    text: str
    marks: tuple[tuple[int, int], ...]


def snippets(query: str, said: Iterable[tuple[int, str]]) -> dict[int, Snippet]:
    """The snippets of those folded texts that match, by their numbers: what does not match has none."""
    match, found = expression(query), {}
    short: list[tuple[int, str]] = []
    for number, text in said:
        if len(text) <= LONG:
            short.append((number, text))
        elif _select(MATCHES, match, [(number, text)]):
            found[number] = _of_long(text, match, any_word(query))
    return found | {number: _snippet(text) for number, text in _select(SNIPPET, match, short)}


def _select(statement: str, match: str, said: Sequence[tuple[int, str]]) -> list[tuple[Any, ...]]:
    """Return the rows of a statement over a table of these texts."""
    if not said:
        return []
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE shown USING fts5 (said, {TOKENIZER})")
        connection.executemany("INSERT INTO shown (rowid, said) VALUES (?, ?)", said)
        return connection.execute(statement, (match,)).fetchall()


def _of_long(text: str, match: str, any_word: str) -> Snippet:
    """Return the snippet of the first window that matches; else of the first that has one of the words.

    A window that is cut has an ellipsis, though its snippet may begin or end where the window does.
    """
    windows = dict(enumerate(_windows(text)))
    for wanted in (match, any_word):
        if found := _select(f"{MATCHES} ORDER BY rowid LIMIT 1", wanted, [*windows.items()]):
            (at,) = found[0]
            ((_, marked),) = _select(SNIPPET, wanted, [(at, windows[at])])
            left = CUT if at and not marked.startswith(CUT) else ""
            right = CUT if at < len(windows) - 1 and not marked.endswith(CUT) else ""
            return _snippet(f"{left}{marked}{right}")
    return Snippet(f"{unfolded(' '.join(text[:LONGEST].split()))}{CUT}", ())  # one word longer than a window


def _windows(text: str) -> Iterator[str]:
    """Yield overlapping pieces of at most `LONG` characters, cut at blanks where there are any near."""
    begin = 0
    while begin < len(text):
        end = begin + LONG
        if end < len(text) and (blank := LAST_BLANK.search(text, end - OVERLAP, end)):
            end = blank.start() + 1
        yield text[begin:end]
        if end >= len(text):
            return
        again = FIRST_BLANK.search(text, end - OVERLAP, end - OVERLAP // 2)
        begin = again.end() if again else end - OVERLAP


def _snippet(marked: str) -> Snippet:
    """The snippet, its marks counted in characters instead of standing in it."""
    before, *hits = _cut(" ".join(marked.split())).split(BEGIN)
    text, marks = unfolded(before), []
    for hit in hits:
        words, _, rest = hit.partition(END)
        accents = len(list(takewhile(lambda letter: category(letter)[0] == "M", rest)))  # no part of a token
        word = unfolded(words + rest[:accents])
        marks.append((len(text), len(text) + len(word)))
        text += word + unfolded(rest[accents:])
    return Snippet(text, tuple(marks))


def _cut(marked: str) -> str:
    """The marked text, where it is too long for a line only what stands around its first hit."""
    if len(marked) <= LONGEST:
        return marked
    first = max(0, marked.index(BEGIN) - LONGEST // 4)
    cut = marked[first : first + LONGEST]
    return f"{CUT if first else ''}{cut}{CUT}"
