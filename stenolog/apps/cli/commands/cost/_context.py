"""`cost --context`: how the context of an agent grew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stenolog.apps.cli.arguments.agent import known_agent
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.lines import CommandResult, Piece, counted, line
from stenolog.apps.cli.terminal import whole_or_not_at_all
from stenolog.apps.views.lanes import unrecorded
from stenolog.apps.views.stats import Stats, agent_rows, stats, stats_data
from stenolog.projections.context_curve.samples import MARK_WORDS

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation

STEPS = 3
"""The largest steps that a person is shown."""


def grown(conversation: Conversation, *, agent: str | None, at: str, plot: Path | None) -> CommandResult:
    """Show the tokens of an agent's requests as rebuilt, billed and cached, and what made them smaller."""
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
