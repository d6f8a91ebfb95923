"""How a framework takes back what was said last: the entries are hidden, and stay."""

from __future__ import annotations

from stenolog.domain.settings import Settings
from stenolog.domain.values import Span


def hidden(settings: Settings, first: int, last: int) -> list[Span]:
    """The spans that are hidden once all from `first` to `last`, the end, are."""
    before = [span for span in settings.hides if span.last < first]
    if before and before[-1].last == first - 1:
        first = before.pop().first
    return [*before, Span(first=first, last=last)]
