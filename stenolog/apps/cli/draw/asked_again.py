"""Output of `retry --ask`."""

from __future__ import annotations

from collections.abc import Iterator

from stenolog.adapters.providers.prices import usd
from stenolog.apps.cli.lines import CommandResult, Diagnostic, Piece, counted, line
from stenolog.apps.views.asked_again import AskedAgain, asked_data, rows, verdict_in_words, worst

from .layout import table, wrapped

STYLES = {"regressed": "red", "improved": "green", "no difference found": "dim"}
MARKS = {"regressed": ("✗ ", "red"), "improved": ("✓ ", "green")}


def asked_answer(found: AskedAgain) -> CommandResult:
    """Return the answer of calls that were asked again."""
    notes = tuple(_notes(found))
    said = tuple(each for each in notes if each.code in ("missing", "no-calls", "left-out", "old-answers"))
    return CommandResult(asked_data(found), lambda: asked_drawn(found), found.failed, notes, messages=said)


def asked_drawn(found: AskedAgain) -> Iterator[Piece]:
    """Yield the table, the worst calls, and the verdict."""
    verdict = found.judged
    if verdict is not None and found.pairs:
        cells = [(*row[:4], (row[4], STYLES[row[4]])) for row in rows(verdict)]
        yield table(("~tool", ">as recorded", ">now", ">points", "verdict"), cells)
        for case, pair in worst(found):
            yield line(
                ("worse  ", "red"), f"{case.conversation} at {case.position}",
                (f"  {case.lane.address}", "cyan"),
                f"  {pair.passed_before} of {pair.asked_before} → {pair.passed_after} of {pair.asked_after}",
            )  # fmt: skip
    mark = MARKS.get(verdict.verdict if verdict else "", ("· ", "cyan"))
    if found.pairs:
        yield line(mark, verdict_in_words(found))
    yield wrapped((f"  {_terms(found)}", "dim"), hang=2)


def _terms(found: AskedAgain) -> str:
    parts = [f"judged by {found.judge}", f"{found.confidence:.0%} confidence"]
    if found.unaltered:
        parts.append(f"{counted(found.unaltered, 'request')} unaltered, not asked")
    return ", ".join([*parts, f"${usd(found.micro_usd)} in all"])


def _notes(found: AskedAgain) -> Iterator[Diagnostic]:
    if found.judged is not None:
        for name, each in (("all", found.judged.whole), *found.judged.groups.items()):
            if each.verdict == "regressed":
                shares = f"{each.before.share:.0%} → {each.after.share:.0%} of the answers pass"
                yield Diagnostic("error", "regressed", f"{name}: {shares} with {found.change}")
    if found.missing:
        words = f"{counted(found.missing, 'answer')} missing: the budget or the provider ended before"
        yield Diagnostic("error", "missing", f"{words}; the same command goes on")
    if found.left_out:
        words = f"{counted(found.left_out, 'call')} left out: no answer recorded, or nothing to send"
        yield Diagnostic("note", "left-out", words)
    if found.days_apart:
        words = f"the answers are up to {counted(found.days_apart, 'day')} apart"
        yield Diagnostic("warning", "old-answers", f"{words}: a provider may have changed its model since")
    if not found.pairs and not found.unaltered:
        yield Diagnostic("warning", "no-calls", "no recorded call to ask")
