"""Command `stats`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from stenolog.apps.cli.arguments.agent import known_agent, takes_agent_else
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import takes_at, takes_conversation
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, counted, line
from stenolog.apps.cli.terminal import PLAIN_FILE, whole_or_not_at_all
from stenolog.apps.views.lanes import unrecorded
from stenolog.apps.views.stats import Stats, agent_rows, stats, stats_data
from stenolog.projections.context_curve.samples import MARK_WORDS

STEPS = 3
"""The largest steps that a person is shown."""


@command("stats", example="stenolog stats demo --agent coder --plot context.svg")
@takes_at
@click.option("--plot", metavar="FILE", type=PLAIN_FILE, help="Draw the agent's context as SVG.")
@takes_agent_else("default: the one with most calls")
@takes_conversation
def stats_command(db: Database, target: str, at: str, plot: Path | None, agent: str | None) -> CommandResult:
    """Count calls, and show how an agent's context grew.

    The tokens of each request as rebuilt, billed and cached; what made it smaller.
    """
    conversation = find_conversation(open_log(db), target)
    found = stats(conversation, known_agent(conversation, agent) if agent else "", resolve(conversation, at))
    if plot is not None:
        with whole_or_not_at_all(plot) as file:
            file.write(found.curve.svg())
    notes = unrecorded(conversation, found.agent)
    return CommandResult(stats_data(found), lambda: _drawn(found, plot), diagnostics=notes)


def _drawn(found: Stats, plot: Path | None) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import table, wrapped

    rows = [
        (
            (row["agent"], "cyan"),
            f"{row['calls']:,}",
            (f"{row['errors']:,}" if row["errors"] else "", "red"),
            f"{row['tools']:,}",
            f"{row['tokens']['input']:,}",
            f"{row['tokens']['cache_read']:,}",
            f"{row['tokens']['output']:,}",
        )
        for row in agent_rows(found.used)
    ]
    yield table(("~AGENT", ">CALLS", ">ERRORS", ">TOOLS", ">INPUT", ">CACHED", ">OUTPUT"), rows)
    curve, largest = found.curve, found.curve.largest
    if largest is None:
        return
    sizes = [f"{largest.tokens:,} rebuilt"] if largest.tokens is not None else []
    sizes += [f"{largest.billed:,} billed"] if largest.billed is not None else []
    yield line(("", ""))
    yield line((found.agent, "cyan"), f": its largest request is at {largest.at:,}: {', '.join(sizes)}")
    counts = [counted(number, kind) for kind in MARK_WORDS if (number := curve.count(kind))]
    if counts or curve.budget:
        budget = [f"a budget of {curve.budget:,} tokens"] if curve.budget else []
        yield line(f"  {', '.join([*budget, *counts])}")
    if (gone := found.unexplained) is not None and gone.tokens:
        words = f"  not in this log: {gone.tokens:,} of the {gone.billed:,} tokens billed for its requests"
        yield wrapped((f"{words}: {gone.in_words}", "yellow"), hang=4)
    for step in curve.steps(STEPS):
        yield line((f"  {step.tokens:+,} tokens with the request at {step.at:,}", "dim"))
    if plot is not None:
        yield line(("✓ ", "green"), f"drawn to {plot}")
