"""Output of `bisect --releases`: the releases of a program, and what each changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from stenolog.apps.cli.arguments.time import in_zone
from stenolog.apps.cli.lines import Piece, counted, line
from stenolog.projections.analysis.drift import PromptVersion, RoleDrift, ToolChange, VersionChange
from stenolog.projections.analysis.word_diff import Span, changed_rows

from .layout import heading, table, wrapped

SHOWN = 12
"""So many changed lines of a text are shown; with --verbose all of them."""


def releases_data(found: RoleDrift) -> dict[str, Any]:
    """Return the releases of a role as JSON."""
    version_fields = [name for name in PromptVersion._fields if name != "sample"]
    return {
        **{name: value for name, value in found._asdict().items() if name != "agents"},
        "versions": [
            {name: getattr(version, name) for name in version_fields}
            | {"tools": [tool.name for tool in version.tools]}
            for version in found.versions
        ],
        "changes": [
            {
                **change._asdict(),
                "prompt": _spans_data(change.prompt),
                "changed": [
                    {**tool._asdict(), "description": _spans_data(tool.description)}
                    for tool in change.changed
                ],
            }
            for change in found.changes
        ],
    }


def _spans_data(spans: Iterable[Span]) -> list[dict[str, str]]:
    return [span._asdict() for span in spans if span.sign != "="]


def releases_drawn(found: Sequence[RoleDrift], *, verbose: bool) -> Iterator[Piece]:
    """Yield each role with its releases, and their differences."""
    if not found:
        yield line(("no program was recorded here; stenolog tap records one", "dim"))
    for one in found:
        yield heading(f"{one.client}, {one.role}: {one.begins}"[:100])
        yield table(
            ("~VERSION", "FIRST", "LAST", ">REQUESTS", ">TOOLS", ">CHARACTERS", "*PROGRAM"),
            [
                (
                    (version.digest, "cyan"),
                    _day(version.first),
                    _day(version.last),
                    f"{version.requests:,}",
                    f"{len(version.tools):,}",
                    f"{len(version.prompt):,}",
                    (", ".join(version.programs), "dim"),
                )
                for version in one.versions
            ],
        )
        for change in one.changes:
            yield wrapped(
                (f"{change.before} → {change.after}", "bold"), f", {_day(change.time)}: {_counts(change)}"
            )
            yield from _change_lines(change, verbose=verbose)


def _day(time: datetime) -> str:
    return f"{in_zone(time):%Y-%m-%d %H:%M}"


def _counts(change: VersionChange) -> str:
    lines = sum(1 for span in change.prompt if span.sign != "=")
    found = [f"prompt: {counted(lines, 'change')}"] if lines else []
    numbers = ((word, len(getattr(change, word))) for word in ("added", "removed", "changed"))
    return ", ".join([*found, *(f"{counted(number, 'tool')} {word}" for word, number in numbers if number)])


def _change_lines(change: VersionChange, *, verbose: bool) -> Iterator[Piece]:
    for names, sign, style in ((change.added, "+", "green"), (change.removed, "-", "red")):
        for name in names:
            yield line((f"  {sign} tool {name}", style))
    yield from _span_lines(change.prompt, "  ", verbose=verbose)
    for tool in change.changed:
        yield line(("  ~ tool ", "yellow"), tool.name)
        yield from _tool_lines(tool, verbose=verbose)


def _tool_lines(tool: ToolChange, *, verbose: bool) -> Iterator[Piece]:
    yield from _span_lines(tool.description, "    ", verbose=verbose)
    for pointer in tool.schema if verbose else tool.schema[:SHOWN]:
        yield line(f"    {pointer}")


def _span_lines(spans: Iterable[Span], indent: str, *, verbose: bool) -> Iterator[Piece]:
    rows = changed_rows(spans)
    shown = rows if verbose else rows[:SHOWN]
    for sign, row in shown:
        yield wrapped((f"{sign} {row}", "green" if sign == "+" else "red"), indent=len(indent), hang=2)
    if len(rows) > len(shown):
        yield line((f"{indent}{len(rows) - len(shown):,} lines more: --verbose", "dim"))
