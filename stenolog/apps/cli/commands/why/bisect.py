"""Command `bisect`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stenolog.apps.cli.arguments.agent import takes_agent
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import open_log
from stenolog.apps.cli.arguments.options import names, takes_db
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece
from stenolog.apps.cli.terminal import PLAIN_FILE

from ._asking import AskOptions, ask_panel, takes_asking
from ._axes import BisectOptions, commits_axis, entries_axis, recorded_roles, releases_axis

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log
    from stenolog.apps.views.axes import Axis


@command("bisect", example='stenolog bisect demo --agent coder --holds "mail.py first"')
@click.option("--between", nargs=2, metavar="A B", help="The first and the last to try.")
@click.option("--team", type=PLAIN_FILE, help="Try the commits of this team file, not entries.")
@click.option("--releases", metavar="CLIENT", help="Try a recorded program's releases; alone: list them.")
@click.option("--holds", metavar="TEXT", help="Find what brought a text into the request, or took it.")
@click.option("--at", metavar="ENTRY", help="The request here. Default: the last answered.")
@click.option("--sample", metavar="N", type=click.IntRange(1), help="At most so many recorded calls.")
@click.option("-v", "--verbose", is_flag=True, help="List every line that a release changed.")
@takes_asking
@takes_agent
@takes_db
@click.argument("targets", metavar="[CONVERSATION]...", nargs=-1, shell_complete=names)
def bisect_command(
    db: Database,
    targets: tuple[str, ...],
    agent: str | None,
    between: tuple[str, str] | None,
    team: Path | None,
    releases: str | None,
    holds: str | None,
    at: str | None,
    sample: int | None,
    verbose: bool,
    asking: AskOptions,
) -> CommandResult:
    """Find the entry, commit or release that turned a request.

    By a binary search. Exits with 1 if none can be named.
    """
    if team and releases is not None:
        raise click.UsageError("--team and --releases: expected one of them")
    times = asking.ask
    if holds is not None and times is not None:
        raise click.UsageError("--holds asks no model: expected --holds TEXT or --ask N")
    log, options = open_log(db), BisectOptions(targets, agent, at, between, sample, times is not None)
    if holds is None and times is None:
        if releases is not None:
            return _releases(log, releases, verbose=verbose)
        raise click.UsageError("expected --holds TEXT or --ask N; --releases CLIENT alone lists releases")
    if at and (team or releases):
        raise click.UsageError("--at is for one request: not with --team or --releases")
    if team:
        axis = commits_axis(log, options, team)
    else:
        axis = entries_axis(log, options) if releases is None else releases_axis(log, options, releases)
    return _judged(axis, holds, asking, db)


def _judged(axis: Axis, text: str | None, asking: AskOptions, db: Database) -> CommandResult:
    from stenolog.apps.views.bisections import AnswerSearch, by_text, judged_data

    if asking.ask is None:
        judged = by_text(axis, text or "")
    else:
        search = AnswerSearch(axis, asking.ask, asking.confidence)
        judged = ask_panel(asking, db, search.forecast, search.judged)

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.bisection import bisection_drawn

        return bisection_drawn(judged)

    return CommandResult(judged_data(judged), draw, failed=not judged.is_found)


def _releases(log: Log, client: str, *, verbose: bool) -> CommandResult:
    from stenolog.apps.cli.draw.releases import releases_data, releases_drawn

    found = recorded_roles(log, client)
    data = {"client": client, "roles": [releases_data(one) for one in found]}
    return CommandResult(data, lambda: releases_drawn(found, verbose=verbose))
