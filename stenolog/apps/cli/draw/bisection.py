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
    what, points = judged.axis.what, [each for each in tried(judged) if each.passed.of]
    yield wrapped(MARKS[judged.searched.found.verdict], (sentence(judged), "bold"), hang=2)
    noisy = judged.confidence is not None
    columns = (f">{what.upper()}", ">PASSED", *([">SHARE"] if noisy else []), "*TEXT")
    yield table(columns, [_row(each, noisy=noisy) for each in points])
    words = f"{len(points):,} of {len(judged.axis.variants):,} tried"
    if judged.confidence is not None:
        asked = counted(sum(each.passed.of for each in points), "answer")
        words = f"{words}: {asked}, ${usd(judged.micro_usd)}; confidence {judged.confidence:.0%}"
    yield line((words, "dim"))


def _row(each: Tried, *, noisy: bool) -> tuple[Cell, ...]:
    name, (passed, of, low, high) = (each.variant.name, "yellow" if each.is_named else ""), each.passed
    if noisy:
        return name, f"{passed:,} of {of:,}", f"{low:.0%}-{high:.0%}", (each.variant.title, "dim")
    words = {(1, 1): "yes", (0, 1): "no"}.get((passed, of), f"{passed:,} of {of:,}")
    return name, words, (each.variant.title, "dim")
