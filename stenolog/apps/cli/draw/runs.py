"""Output of `compare`: where runs go different ways."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stenolog.apps.cli.lines import Piece, counted, line
from stenolog.apps.views.runs import Beside, ManyRuns, TwoRuns
from stenolog.projections.analysis.word_diff import Span, changed_rows
from stenolog.projections.terminal_text import one_line
from stenolog.projections.views.lines import EntryLine

from .difference import difference_drawn
from .layout import Cell, heading, table, wrapped

STYLES = ("red", "green")
"""The colours of the earlier and the later run."""
ROWS = 12
"""So many changed lines of a text are shown."""


def two_runs_drawn(found: TwoRuns) -> Iterator[Piece]:
    """Yield two runs: what is the same, the first difference, what was read, what followed."""
    comparison = found.comparison
    for sign, name, style in zip("-+", found.names, STYLES, strict=True):
        yield wrapped((f"{sign} {name}", style))
    shared = f"{counted(comparison.shared, 'entry', 'entries')} shared, " if comparison.shared else ""
    yield line(("the same  ", "dim"), f"{shared}{counted(comparison.same, 'step')}")
    if found.first is None:
        yield line(("no difference", "green"))
    else:
        yield heading("First difference")
        yield _steps([found.first])
        yield from _changed_lines(found.words)
        if found.inside:
            yield wrapped(("workers made it: ", "dim"), f"stenolog compare {' '.join(found.inside)}")
        yield from _answer(found)
    is_shown = comparison.answer in comparison.followed
    for title, shown, number in (
        ("What else followed", found.followed, len(comparison.followed) - is_shown),
        ("Different for other reasons", found.others, len(comparison.others)),
    ):
        if shown:
            yield heading(f"{title}: {counted(number, 'step')}")
            yield _steps(shown)
            if number > len(shown):
                yield line((f"{number - len(shown):,} more: --json has all", "dim"))
    if comparison.asides:
        asides = counted(len(comparison.asides), "failed call or note", "failed calls or notes")
        yield wrapped((f"changed nothing  {asides}", "dim"))


def _answer(found: TwoRuns) -> Iterator[Piece]:
    """Yield the first different answer, and the difference of what was read before it."""
    if found.answer is None or found.requests is None:
        return
    if found.answer != found.first:
        yield heading("First different answer")
        yield _steps([found.answer])
    yield heading("What was read before it")
    diff = found.requests.diff
    yield from difference_drawn(diff, found.requests.before, found.requests.after)
    if not (diff.changes or diff.around):
        yield line(("the same was read: the model answered otherwise", "yellow"))


def _steps(shown: Iterable[Beside]) -> Piece:
    rows: list[tuple[Cell, ...]] = []
    for each in shown:
        sides = ((each.divergence.before, each.before), (each.divergence.after, each.after))
        for sign, style, (position, words) in zip("-+", STYLES, sides, strict=True):
            rows.append(((sign, style), *_entry_cells(position, words)))
    return table(("", ">ENTRY", "WHO", "*WHAT"), rows)


def _entry_cells(position: int, words: EntryLine | None) -> tuple[Cell, ...]:
    if words is None:
        return "", "", ("nothing", "dim")
    return f"{position:,}", words.who, one_line(words.what)


def _changed_lines(spans: Iterable[Span]) -> Iterator[Piece]:
    rows = changed_rows(spans)
    for sign, row in rows[:ROWS]:
        yield wrapped((f"{sign} {row}", "green" if sign == "+" else "red"), indent=2, hang=2)
    if len(rows) > ROWS:
        yield line((f"  {len(rows) - ROWS:,} more: --json has all", "dim"))


def many_runs_drawn(found: ManyRuns) -> Iterator[Piece]:
    """Yield many runs: where each leaves the majority."""
    names, number = found.names, len(found.names)
    yield wrapped(
        ("compared with  ", "dim"), (names[found.majority.run], "bold cyan"), ", which most are like"
    )
    rows: list[tuple[Cell, ...]] = []
    for leaving, first in found.left:
        same = f"{leaving.comparison.same:,}"
        if first is None:
            rows.append((names[leaving.run], same, "", "", ("no difference", "green"), "", ""))
            continue
        position = first.divergence.after or first.divergence.before
        line_ = first.after or first.before
        does, instead = (one_line(each.what) if each else "nothing" for each in (first.after, first.before))
        who = line_.who if line_ else ""
        stay = f"{leaving.stay} of {number}"
        rows.append((names[leaving.run], same, f"{position:,}", who, (does, "yellow"), instead, stay))
    yield table(("~RUN", ">SAME", ">ENTRY", "WHO", "*DOES", "*MAJORITY", ">AGREE"), rows)
