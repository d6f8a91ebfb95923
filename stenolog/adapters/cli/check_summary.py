"""The last line of a check: how much was checked, and what failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from .lines import CommandResult, Piece, counted, paragraph


class CheckResults(NamedTuple):
    """The results of a check of the log, and of its requests; None where that was not asked for."""

    log: CommandResult | None = None
    requests: CommandResult | None = None

    @property
    def parts(self) -> list[CommandResult]:
        """The results that there are."""
        return [part for part in self if part is not None]


def summary(checked: CheckResults) -> Piece:
    """Return one line: 3 conversations, 120 entries, 40 requests checked: nothing failed."""
    failed = any(part.failed for part in checked.parts)
    mark, style = ("✗", "red") if failed else ("✓", "green")
    found = ", ".join(_found(checked)) or "nothing failed"
    return paragraph(f"{mark} checked {', '.join(_amounts(checked))}: {found}", style)


def summarized(found: CommandResult, checked: CheckResults) -> CommandResult:
    """Return the result of a check, with the line where several conversations were checked."""
    data: Any = found.data
    return found._replace(closing=(summary(checked),)) if len(data["conversations"]) > 1 else found


def _amounts(checked: CheckResults) -> Iterator[str]:
    data: Any = checked.parts[0].data
    yield counted(len(data["conversations"]), "conversation")
    if checked.log is not None:
        yield counted(sum(one.entries for one in data["conversations"]), "entry", "entries")
    if checked.requests is not None:
        asked: Any = checked.requests.data
        yield counted(asked["requests"], "possible request")


def _found(checked: CheckResults) -> Iterator[str]:
    """Yield what failed, and how many warnings there are."""
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
