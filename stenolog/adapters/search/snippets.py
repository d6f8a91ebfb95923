"""Where the words stand in a text: the few around them, with each hit marked."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from itertools import takewhile
from typing import NamedTuple
from unicodedata import category

from .index import TOKENIZER
from .query import BEGIN, END, unfolded

WORDS = 20
LONGEST = 240
"""Characters: a snippet of longer words is cut."""
CUT = "…"
SNIPPET = (
    f"SELECT rowid, snippet(shown, 0, '{BEGIN}', '{END}', '{CUT}', {WORDS}) FROM shown WHERE shown MATCH ?"
)


class Snippet(NamedTuple):
    """A few words on one line. `marks`: the first character of each hit, and the one behind it."""

    text: str
    marks: tuple[tuple[int, int], ...]


def snippets(expression: str, said: Iterable[tuple[int, str]]) -> dict[int, Snippet]:
    """The snippets of those folded texts that match, by their numbers: what does not match has none."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE shown USING fts5 (said, {TOKENIZER})")
        connection.executemany("INSERT INTO shown (rowid, said) VALUES (?, ?)", said)
        found = connection.execute(SNIPPET, (expression,)).fetchall()
    return {number: _snippet(text) for number, text in found}


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
