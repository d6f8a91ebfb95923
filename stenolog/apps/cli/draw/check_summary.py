"""The last line of a check: how much was checked, and what failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import click

from stenolog.apps.cli.lines import MENDED, CommandResult, Diagnostic, Piece, counted, paragraph

LISTED = 5
"""More conversations than these are listed only where something failed, and more notes of a kind counted."""
takes_verbose = click.option("-v", "--verbose", is_flag=True, help="List each conversation and note.")


def is_listed(conversations: int, failed: bool, *, verbose: bool) -> bool:
    """Return whether a conversation gets a line of its own."""
    return failed or verbose or conversations <= LISTED


def messages(notes: Sequence[Diagnostic], *, verbose: bool) -> tuple[Diagnostic, ...]:
    """Return a person's notes: faults of the file as one, and many of a kind counted."""
    of_file = [note for note in notes if note.code == "file"]
    others = [note for note in notes if note.code != "file"]
    many: Counter[tuple[str, str]] = Counter(
        (note.severity, note.code) for note in others if note.severity != "error" and not verbose
    )
    shown = _faults_of_file(of_file, verbose=verbose)
    counted_already: set[tuple[str, str]] = set()
    for note in others:
        kind = note.severity, note.code
        if many[kind] <= LISTED:
            shown.append(note)
        elif kind not in counted_already:
            counted_already.add(kind)
            words = f"{note.message}; {many[kind] - 1:,} more of this kind: -v shows each"
            shown.append(note._replace(message=words))
    return tuple(shown)


def _faults_of_file(notes: Sequence[Diagnostic], *, verbose: bool) -> list[Diagnostic]:
    lines = [row for note in notes for row in note.message.splitlines()]
    if not lines:
        return []
    if verbose:
        return [notes[0]._replace(message="\n".join([*lines, MENDED]))]
    first = next((row for row in lines if not row.endswith("*** in database main ***")), lines[0])
    more = f"; {len(lines) - 1:,} more lines of this: -v shows them" if len(lines) > 1 else ""
    return [
        notes[0]._replace(message=f"{'' if first is lines[0] else 'the database: '}{first}{more}\n  {MENDED}")
    ]


class CheckResults(NamedTuple):
    """Results of checks of the log, and of its requests; None if not asked for."""

    log: CommandResult | None = None
    requests: CommandResult | None = None

    @property
    def parts(self) -> list[CommandResult]:
        return [part for part in self if part is not None]


def summary(checked: CheckResults) -> Piece:
    """Return one line: 3 conversations, 120 entries, 40 rebuilt requests: nothing failed."""
    failed = any(part.failed for part in checked.parts)
    mark, style = ("✗", "red") if failed else ("✓", "green")
    found = ", ".join(_found(checked)) or "nothing failed"
    return paragraph(f"{mark} checked {', '.join(_amounts(checked))}: {found}", style)


def summarized(found: CommandResult, checked: CheckResults) -> CommandResult:
    """Return a check's result, with a summary line for several conversations."""
    data: Any = found.data
    return found._replace(closing=(summary(checked),)) if len(data["conversations"]) > 1 else found


def _amounts(checked: CheckResults) -> Iterator[str]:
    data: Any = checked.parts[0].data
    yield counted(len(data["conversations"]), "conversation")
    if checked.log is not None:
        yield counted(sum(one.entries for one in data["conversations"]), "entry", "entries")
    if checked.requests is not None:
        asked: Any = checked.requests.data
        yield counted(asked["requests"], "rebuilt request")


def _found(checked: CheckResults) -> Iterator[str]:
    if checked.log is not None and (errors := _count(checked.log, "error")):
        yield counted(errors, "difference")
    if checked.requests is not None:
        data: Any = checked.requests.data
        if data["invalid"]:
            yield counted(data["invalid"], "invalid request")
        if data["not_built"]:
            yield f"{counted(data['not_built'], 'conversation')} whose requests cannot be built"
    warnings = sum(_count(part, "warning") for part in checked.parts)
    if warnings:
        passed = not any(part.failed for part in checked.parts)
        yield f"{'nothing failed, ' if passed else ''}{counted(warnings, 'warning')}"


def _count(part: CommandResult, severity: str) -> int:
    return sum(note.severity == severity for note in part.diagnostics)
