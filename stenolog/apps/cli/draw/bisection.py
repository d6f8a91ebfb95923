"""Output of `bisect`: the point that turned the judge, and what was tried on the way."""

from __future__ import annotations

from collections.abc import Iterator

from stenolog.apps.cli.lines import Piece, line
from stenolog.apps.views.bisections import Judged, passes

from .layout import Cell, table, wrapped


def bisection_drawn(judged: Judged) -> Iterator[Piece]:
    """Yield the result in a sentence, then each point that was tried."""
    axis, (found, verdicts) = judged.axis, judged.searched
    before, after = axis.variants[found.before], axis.variants[found.after]
    span = f"between {axis.what} {before.name} and {after.name}"
    if found.verdict == "no difference":
        yield wrapped(("· ", "dim"), f"no difference found {span}: {judged.judge}", hang=2)
    elif found.verdict == "undecided":
        words = f"{_turned(judged)} from a point {span} on; which one takes more answers"
        yield wrapped(("? ", "yellow"), words, hang=2)
    else:
        words = f"{axis.what} {after.name}: from here on {_turned(judged)}"
        yield wrapped(("✓ ", "green"), (words, "bold"), hang=2)
    tried = [_row(judged, variant, of) for variant, of in passes(verdicts).items()]
    yield table((f">{axis.what.upper()}", ">PASSED", "*TEXT"), tried)
    yield line((f"{len(tried):,} of {len(axis.variants):,} tried", "dim"))


def _row(judged: Judged, variant: int, of: tuple[int, int]) -> tuple[Cell, ...]:
    name, title = judged.axis.variants[variant]
    mark = "yellow" if variant == judged.searched.found.after else ""
    passed = f"{of[0]:,} of {of[1]:,}"
    if of == (of[0], 1) and judged.confidence is None:
        passed = "yes" if of[0] else "no"
    return (name, mark), passed, (title, "dim")


def _turned(judged: Judged) -> str:
    return judged.fails if judged.searched.found.worse else judged.passes
