"""Search queries of a person, as expressions of FTS5. Whatever they type, no character of it is syntax there.

failing test        both words, anywhere in an entry
"failing test"      next to each other
fail*               words that begin so
failing OR broken   one of the two; OR joins its neighbours only
-flaky              without it, where a word begins with it
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from unicodedata import normalize

from stenolog.domain.errors import InvalidEventError

TERM = re.compile(r'(?P<no>-(?=[\w"]))?(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+))(?P<begins>\*)?')
MOST_TERMS = 100
SEAM = "\u2060"
"""Stands behind each letter of a script that writes no blanks between words; separates, and shows nothing."""
BEGIN, END = "\ufdd0", "\ufdd1"
"""Around each hit, while it is looked for: characters that no text may hold, and that are blanks in one."""
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Japanese kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\uac00-\ud7af]"  # Korean, whose blanks stand between phrases
)


def folded(text: str) -> str:
    """The text as it is indexed: accents apart, which the tokenizer drops; each letter of a script without
    blanks a word of its own, so that a part of a sentence is found as a phrase. The letter й has none."""
    if text.isascii():
        return text
    plain = text.replace(BEGIN, " ").replace(END, " ")
    apart = normalize("NFD", UNSPACED.sub(rf"\g<0>{SEAM}", plain))
    return apart.replace("и\u0306", "й").replace("И\u0306", "Й")


def unfolded(text: str) -> str:
    """The text as it is shown again."""
    return normalize("NFC", text.replace(SEAM, ""))


class Term(NamedTuple):
    """A word or a phrase, as FTS5 writes it. `is_or` is the word OR itself."""

    expression: str
    is_wanted: bool
    is_or: bool


def expression(query: str) -> str:
    """The query for `MATCH`. Raises `InvalidEventError` where there is no word to look for, or too many."""
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
    """Return an expression for `MATCH` that each of the wanted words satisfies alone."""
    return " OR ".join(term.expression for term in _checked(query) if term.is_wanted and not term.is_or)


def _checked(query: str) -> list[Term]:
    terms = list(_terms(query))
    if len(terms) > MOST_TERMS:
        raise InvalidEventError(f"search: expected at most {MOST_TERMS} words, found {len(terms)}")
    return terms


def _terms(query: str) -> Iterator[Term]:
    for found in TERM.finditer(query):
        word = found["phrase"] if found["word"] is None else found["word"]
        if any(map(str.isalnum, word)):
            begins = " *" if found["begins"] or (found["word"] and word.endswith("*")) else ""
            yield Term(f'"{_plain(word)}"{begins}', not found["no"], found[0] == "OR")


def _plain(word: str) -> str:
    """The word without what SQLite cannot be handed: a NUL ends its text, half a surrogate is no UTF-8."""
    return folded(word.replace("\0", " ").encode(errors="replace").decode())
