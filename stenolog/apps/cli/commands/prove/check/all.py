"""Command `check all`."""

from __future__ import annotations

from itertools import chain

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import open_log
from stenolog.apps.cli.arguments.options import takes_conversation, takes_jobs
from stenolog.apps.cli.draw.check_summary import CheckResults, messages, summary, takes_verbose
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult

from .log import checked_log
from .requests import checked_requests


@command("all", example="stenolog check")
@takes_jobs
@takes_verbose
@takes_conversation
def check_all_command(db: Database, target: str, jobs: int | None, verbose: bool) -> CommandResult:
    """Check the log, and every agent's request, of all conversations.

    `check log`, then `check requests`; the last line says what failed.
    """
    log = open_log(db)
    checked = CheckResults(
        checked_log(log, target, jobs=jobs, verbose=verbose),
        checked_requests(log, target, jobs=jobs, verbose=verbose),
    )
    notes = tuple(chain.from_iterable(part.diagnostics for part in checked.parts))
    return CommandResult(
        dict(zip(checked._fields, (part.data for part in checked.parts), strict=True)),
        lambda: chain.from_iterable(part.draw() for part in checked.parts),
        failed=any(part.failed for part in checked.parts),
        diagnostics=notes,
        messages=messages(notes, verbose=verbose),
        closing=(summary(checked),),
    )
