"""Origins of words: which parts of a request, and so which entries, had them before an answer did."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

WORD = re.compile(r"\w+")
MOST_WORDS = 200
"""The words that are looked for; of a longer text the first."""
FEWEST = 2
"""So few words in a row are found only if no more were asked for."""
AROUND = 40
"""Characters before and after the words that are quoted."""


class Origin(NamedTuple):
    """Words found in a text: its index, the number of words, and the text before, with, and after them."""

    text: int
    words: int
    before: str
    found: str
    after: str


def origins(wanted: str, texts: Sequence[str], most: int = 5) -> list[Origin]:
    """Return where most of the wanted words stand in a row, the longest first, then the earliest.

    Case, punctuation and blanks do not count. Each text is named once, with its longest run. If no text has
    one of the words, the wanted text itself is looked for: a part of a word, signs, or words without blanks
    between them, as in Chinese.
    """
    asked = [word.lower() for word in WORD.findall(wanted)[:MOST_WORDS]]
    found = [one for at, text in enumerate(texts) if (one := _longest(asked, text, at)) is not None]
    if not found:
        return list(_literal(wanted.strip(), texts))[:most]
    longest = max(one.words for one in found)
    least = max(min(FEWEST, len(asked)), (longest + 1) // 2)
    good = [one for one in found if one.words >= least]
    return sorted(good, key=lambda one: (-one.words, one.text))[:most]


def _literal(wanted: str, texts: Sequence[str]) -> Iterator[Origin]:
    words = len(WORD.findall(wanted))
    for at, text in enumerate(texts):
        first = text.find(wanted) if wanted else -1
        if first >= 0:
            last = first + len(wanted)
            yield Origin(at, words, text[max(0, first - AROUND) : first], wanted, text[last : last + AROUND])


def _longest(asked: Sequence[str], text: str, at: int) -> Origin | None:
    places: dict[str, list[int]] = {}
    for nth, word in enumerate(asked):
        places.setdefault(word, []).append(nth)
    best, end, runs = 0, 0, dict[int, int]()
    spans = [(found.start(), found.end()) for found in WORD.finditer(text)]
    for nth, (start, stop) in enumerate(spans):
        # By the index of the last word of a run: the run's length.
        runs = {place: runs.get(place - 1, 0) + 1 for place in places.get(text[start:stop].lower(), ())}
        longest = max(runs.values(), default=0)
        if longest > best:
            best, end = longest, nth
    if not best:
        return None
    first, last = spans[end - best + 1][0], spans[end][1]
    before, after = text[max(0, first - AROUND) : first], text[last : last + AROUND]
    return Origin(at, best, before, text[first:last], after)
