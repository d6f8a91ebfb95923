"""Command `compare`."""

from __future__ import annotations

from collections.abc import Iterable

import click

from stenolog.apps.cli.arguments import agent as agents
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import names, takes_db
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece
from stenolog.apps.views.runs import How, many_runs, many_runs_data, two_runs, two_runs_data


@command("compare", example="stenolog compare monday tuesday --agent coder")
@click.argument("targets", metavar="CONVERSATION CONVERSATION...", nargs=-1, shell_complete=names)
@agents.takes_agent_else("default: all")
@click.option("--calls", is_flag=True, help="Compare what answers call, not what they say.")
@click.option("--loosely", is_flag=True, help="Ignore dates, ids and paths in texts.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if they differ.")
@takes_db
def compare_command(
    db: Database, targets: tuple[str, ...], agent: str | None, calls: bool, loosely: bool, exit_code: bool
) -> CommandResult:
    """Show where one run goes another way, and why.

    Of two: the first difference, what was read before it, and what followed. Of more: where each leaves the
    majority. Parallel work may come in any order.
    """
    if len(targets) < 2:
        raise click.UsageError(f"expected two conversations or more, found {len(targets)}")
    log = open_log(db)
    runs = [find_conversation(log, each) for each in targets]
    if agent:
        for run in runs:
            agents.known_agent(run, agent)
    how = How(agent or "", calls, loosely)
    if len(runs) > 2:
        many = many_runs(runs, how)

        def draw_many() -> Iterable[Piece]:
            from stenolog.apps.cli.draw.runs import many_runs_drawn

            return many_runs_drawn(many)

        differ = any(first is not None for _, first in many.left)
        return CommandResult(many_runs_data(many), draw_many, failed=exit_code and differ)
    two = two_runs(runs[0], runs[1], how)

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.runs import two_runs_drawn

        return two_runs_drawn(two)

    return CommandResult(two_runs_data(two), draw, failed=exit_code and two.first is not None)
