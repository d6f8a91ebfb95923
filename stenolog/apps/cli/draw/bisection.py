"""Output of `bisect`: the point that turned the judge, and what was tried on the way."""

from __future__ import annotations

from collections.abc import Iterator

from stenolog.adapters.providers.prices import usd
from stenolog.apps.cli.lines import Piece, counted, line
from stenolog.apps.views.bisections import Judged, Tried, sentence, tried

from .layout import Cell, table, wrapped

MARKS = {"found": ("✓ ", "green"), "undecided": ("? ", "yellow"), "no difference": ("· ", "dim")}


def bisection_drawn(judged: Judged) -> Iterator[Piece]:
    """Yield the result in a sentence, then each point that was tried."""
    what, points = judged.axis.what, tried(judged)
    yield wrapped(MARKS[judged.searched.found.verdict], (sentence(judged), "bold"), hang=2)
    noisy = judged.confidence is not None
    columns = (f">{what.upper()}", ">PASSED", *([">SHARE"] if noisy else []), "*TEXT")
    yield table(columns, [_row(each, noisy=noisy) for each in points])
    yield line((f"{len(points):,} of {len(judged.axis.variants):,} tried", "dim"))
    if judged.confidence is not None:
        asked = sum(each.passed.of for each in points)
        words = f"judged: {counted(asked, 'answer')}, {usd(judged.micro_usd)} in all"
        yield line((f"{words}; each name is right with {judged.confidence:.0%} at least", "dim"))


def _row(each: Tried, *, noisy: bool) -> tuple[Cell, ...]:
    name, (passed, of, low, high) = (each.variant.name, "yellow" if each.is_named else ""), each.passed
    if noisy:
        return name, f"{passed:,} of {of:,}", f"{low:.0%}-{high:.0%}", (each.variant.title, "dim")
    words = {(1, 1): "yes", (0, 1): "no", (0, 0): "-"}.get((passed, of), f"{passed:,} of {of:,}")
    return name, words, (each.variant.title, "dim")
