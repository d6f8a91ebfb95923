"""Entries of a conversation that a framework is given, and the spans hidden from it.

An entry that a framework takes back is hidden, not deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.settings import Settings
from stenolog.domain.values import PositionRange
from stenolog.projections.context import read
from stenolog.projections.tool_pairs import pair


class InContext(NamedTuple):
    """The entries in context, an edit in the place of what it edits; `edited` says what each edit is of."""

    entries: list[Entry]
    edited: dict[int, list[int]]


def context_of(entries: Sequence[Entry], settings: Settings) -> InContext:
    """Return the entries since the last reset, at least, that are in context under these settings."""
    now = read(entries, settings, pair(()), ())
    here = (entry for entry in entries if entry.position not in now.out)
    edited: dict[int, list[int]] = {}
    for old, new in now.replaced_by.items():
        edited.setdefault(new, []).append(old)
    return InContext(sorted(here, key=lambda entry: now.edits.get(entry.position, entry.position)), edited)


def hidden(settings: Settings, *more: PositionRange) -> list[PositionRange]:
    """The spans that are hidden once these are, too."""
    merged: list[PositionRange] = []
    for span in sorted([*settings.hides, *more], key=lambda span: span.first):
        if merged and span.first <= merged[-1].last + 1:
            span = PositionRange(first=merged[-1].first, last=max(span.last, merged.pop().last))
        merged.append(span)
    return merged
