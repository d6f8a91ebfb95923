"""Output of `retry`."""

from __future__ import annotations

from collections.abc import Iterator

from stenolog.apps.cli.lines import CommandResult, Diagnostic, Piece, Severity, counted, line
from stenolog.apps.views.retries import MEANINGS, Results, effect_in_words, results_data, results_in_words
from stenolog.projections.analysis.retry import NOT_COMPARED, Tried

from .layout import legend, wrapped

MOST = 10
"""So many calls are shown."""
STYLES = {"changed": "red", "refused": "red", "unbuilt": "red", "vanished": "red", "new": "yellow"}


def results_answer(found: Results, written: str = "", *, under_team: bool = False) -> CommandResult:
    """Return the answer of what became of calls."""
    said = []
    if found.unproved:
        calls = counted(found.unproved, "call")
        words = f"{calls} without a record of what was sent: a change, such as --policy, is tried on them too"
        said.append(Diagnostic("note", "unproved", words))
    elif not found.calls:
        said.append(Diagnostic("warning", "no-calls", "no recorded call to try"))
    return CommandResult(
        results_data(found, written),
        lambda: results_drawn(found, written, under_team=under_team),
        found.failed,
        (*notes(found), *said),
        messages=tuple(said),
        checked=found.conversations,
    )


def results_drawn(found: Results, written: str = "", *, under_team: bool = False) -> Iterator[Piece]:
    """Yield the first calls that are not the same, and all in numbers."""
    last: tuple[str, str, str] = ("", "", "")
    for one in found.listed[:MOST]:
        yield from _call(one, is_repeated=one[2:5] == last)
        last = one[2:5]
    if len(found.listed) > MOST:
        yield line((f"… {len(found.listed) - MOST:,} more: --json lists all", "dim"))
    mark = ("✗ ", "red") if found.failed else ("✓ " if found.calls else "· ", "green")
    yield line(mark, results_in_words(found) + (f", written to {written}" if written else ""))
    if under_team and not found.failed:
        yield wrapped((f"  not in a log, so not compared: {', '.join(NOT_COMPARED)}", "dim"), hang=2)


def _call(one: Tried, *, is_repeated: bool) -> Iterator[Piece]:
    case, effect = one.case, effect_in_words(one)
    yield line(
        (f"{one.what:<8} ", STYLES[one.what]), f"{case.conversation} at {case.position}",
        (f"  {case.lane.address}", "cyan"), f"  {one.pointer}" if one.pointer else "",
        (f"  {effect}", "dim") if effect else "",
    )  # fmt: skip
    if one.what != "changed":
        if one.found:
            yield wrapped(one.found, indent=9)
    elif not is_repeated and (one.expected or one.found):
        yield from legend({"recorded": one.expected, "now": one.found})


def notes(found: Results, file: str = "") -> Iterator[Diagnostic]:
    """Yield a finding for each call that is not the same."""
    for one in found.listed:
        case = one.case
        severity: Severity = "note" if one.what == "new" else "error"
        why = "; ".join(filter(None, (one.pointer, one.found if one.what != "changed" else "")))
        words = (
            f"{case.conversation!r} at {case.position}: the call of {case.lane.address}: {MEANINGS[one.what]}"
        )
        message = f"{words}: {why}" if why else words
        yield Diagnostic(severity, one.what, message, case.conversation, case.position, file=file)
