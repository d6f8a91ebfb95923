"""Command `drift`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from stenolog.adapters.conversation.queries.requests.lanes import origin_of
from stenolog.adapters.programs.claude_code import COMMAND
from stenolog.adapters.store.reading import reader
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import open_log
from stenolog.apps.cli.arguments.options import takes_db
from stenolog.apps.cli.arguments.time import in_zone
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, counted, line
from stenolog.apps.cli.terminal import progress
from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, UserMessage
from stenolog.projections.analysis.drift import RoleDrift, ToolChange, VersionChange, drift
from stenolog.projections.analysis.word_diff import Span

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log

KINDS = (ModeSwitch, AssistantMessage, LlmError, UserMessage)
RECORDER = "tap"
SHOWN = 12
"""So many changed lines of a text are shown; with --verbose all of them."""


@command("drift", example=f"stenolog drift {COMMAND}")
@click.argument("client", default="")
@click.option("-v", "--verbose", is_flag=True, help="Every changed line.")
@takes_db
def drift_command(db: Database, client: str, verbose: bool) -> CommandResult:
    """Show how a program's system prompts and tools changed.

    Of programs that `stenolog tap` recorded: each version, when it was used, and what the next one changed.
    Dates, ids and paths make no version.
    """
    found = drift(_recorded(open_log(db)), client)
    data = {"client": client or None, "roles": [_data(one) for one in found]}
    return CommandResult(data, lambda: _drawn(found, verbose=verbose))


def _recorded(log: Log) -> Iterator[tuple[str, Iterable[Entry]]]:
    names = log.names(archived=True)
    for name in progress(names, "reading agents", len(names)):
        conversation = log[name]
        origin = origin_of(conversation)
        if origin is not None and origin.system == RECORDER:
            entries = reader.of_kinds(log.recorder, conversation.stream, KINDS, 0, None)
            yield name, (entry for entry in entries if isinstance(entry, Entry))


def _data(found: RoleDrift) -> dict[str, Any]:
    return {
        **found._asdict(),
        "versions": [
            {**version._asdict(), "tools": [tool.name for tool in version.tools]}
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


def _drawn(found: list[RoleDrift], *, verbose: bool) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import heading, table, wrapped

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
    from stenolog.apps.cli.draw.layout import wrapped

    rows = [
        (span.sign, row.strip())
        for span in spans
        if span.sign != "="
        for row in span.text.split("\n")
        if row.strip()
    ]
    shown = rows if verbose else rows[:SHOWN]
    for sign, row in shown:
        yield wrapped((f"{sign} {row}", "green" if sign == "+" else "red"), indent=len(indent), hang=2)
    if len(rows) > len(shown):
        yield line((f"{indent}{len(rows) - len(shown):,} lines more: --verbose", "dim"))
