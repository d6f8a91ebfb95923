"""Difference of two texts, by lines, and by words inside changed lines.

Words and lines that both texts have once align them (a patience diff), so time does not grow with the square
of the length. A long stretch between two of them is taken whole.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias

Sign: TypeAlias = Literal["=", "-", "+"]
WORDS = re.compile(r"\s+|\w+|[^\w\s]")
LINES = re.compile(r"[^\n]*\n|[^\n]+")
MOST = 2_500
"""The most pairs of words, or of lines, that are all compared with one another."""
MOST_LINES = 2_000
"""The most changed lines that are compared word by word; further ones are shown old and new."""


class Span(NamedTuple):
    """A stretch of text that both have (=), that only the old one has (-), or only the new one (+)."""

    sign: Sign
    text: str


def word_diff(old: str, new: str) -> tuple[Span, ...]:
    """Return both texts' stretches: those of = and - are the old text, those of = and + the new one."""
    return tuple(
        Span(sign, "".join(span.text for span in run))
        for sign, run in groupby(_spans(old, new), key=lambda span: span.sign)
    )


def _spans(old: str, new: str) -> Iterator[Span]:
    left_to_read = MOST_LINES
    for left, right in _stretches(LINES.findall(old), LINES.findall(new)):
        one, other = "".join(left), "".join(right)
        if one == other:
            yield from _old_and_new(one, other)
            continue
        left_to_read -= max(len(left), len(right))
        yield from _changed_words(one, other) if left_to_read >= 0 else _old_and_new(one, other)


def _changed_words(one: str, other: str) -> Iterator[Span]:
    pairs = [
        ("".join(left), "".join(right)) for left, right in _stretches(_split_words(one), _split_words(other))
    ]
    same = sum(len(left) for left, right in pairs if left == right)
    for left, right in pairs if 3 * same >= min(len(one), len(other)) else [(one, other)]:
        yield from _old_and_new(left, right)


def _split_words(text: str) -> list[str]:
    return WORDS.findall(text)


def _old_and_new(left: str, right: str) -> Iterator[Span]:
    if left == right:
        if left:
            yield Span("=", left)
        return
    if left:
        yield Span("-", left)
    if right:
        yield Span("+", right)


def _stretches(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Yield both sides in stretches that are equal, or unrelated."""
    at, there = 0, 0
    for one, other in (*_anchors(old, new), (len(old), len(new))):
        yield from _short_stretches(old[at:one], new[there:other])
        yield old[one : one + 1], new[other : other + 1]
        at, there = one + 1, other + 1


def _short_stretches(
    left: Sequence[str], right: Sequence[str]
) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    if not (left and right) or len(left) * len(right) > MOST:
        yield left, right
        return
    for _, begin, end, there, until in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        yield left[begin:end], right[there:until]


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the places of the common beginning and end, and of what both have once, in order."""
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    there, until = range(first, len(old) - last), range(first, len(new) - last)
    once, too = Counter(old[at] for at in there), Counter(new[at] for at in until)
    places = {new[at]: at for at in until if too[new[at]] == 1 == once[new[at]]}
    pairs = [(at, places[old[at]]) for at in there if old[at] in places]
    head = [(at, at) for at in range(first)]
    tail = [(len(old) - back, len(new) - back) for back in range(last, 0, -1)]
    return [*head, *_rising_run(pairs), *tail]


def _rising_run(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest run of pairs that rises on both sides; on the left all of them rise."""
    ends: list[int] = []
    piles: list[int] = []
    before: list[int] = []
    for index, (_, there) in enumerate(pairs):
        pile = bisect_left(ends, there)
        before.append(piles[pile - 1] if pile else -1)
        ends[pile : pile + 1], piles[pile : pile + 1] = [there], [index]
    found, at = [], piles[-1] if piles else -1
    while at >= 0:
        found.append(pairs[at])
        at = before[at]
    return found[::-1]


def changed_rows(spans: Iterable[Span]) -> list[tuple[Sign, str]]:
    """Return the lines of what differs, stripped, each with its sign."""
    return [
        (span.sign, row.strip())
        for span in spans
        if span.sign != "="
        for row in span.text.split("\n")
        if row.strip()
    ]
