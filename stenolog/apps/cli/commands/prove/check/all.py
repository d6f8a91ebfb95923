"""Command `check all`."""

from __future__ import annotations

from itertools import chain

import click

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import open_log
from stenolog.apps.cli.arguments.options import (
    takes_conversation_or_paths,
    takes_format,
    takes_grades,
    takes_jobs,
)
from stenolog.apps.cli.draw.check_summary import CheckResults, messages, summary, takes_verbose
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult

from .log import checked_log
from .requests import checked_requests


@command("all", example="stenolog check")
@takes_grades
@takes_format
@takes_jobs
@takes_verbose
@takes_conversation_or_paths
def check_all_command(
    db: Database,
    words: tuple[str, ...],
    jobs: int | None,
    verbose: bool,
    fail_on: str,
    ignored: tuple[str, ...],
) -> CommandResult:
    """Check the log, and every agent's request, of all conversations.

    `check log`, then `check requests`; the last line says what failed. A word is
    looked for among the names of conversations; other words are files, checked as by `check file`.
    """
    target = ""
    if words:
        from stenolog.apps.cli.arguments.words import name_or_files  # late: a log needs no importers

        target, files = name_or_files(db, words)
        if files:
            from stenolog.apps.cli.commands.change.import_ import paths_of

            from .file import FAILS, Grades, checked_files

            grades = Grades(FAILS[fail_on], frozenset(ignored))
            return checked_files(paths_of(files, []), grades, verbose=verbose)
    if ignored or fail_on != "error":
        raise click.UsageError("--fail-on and --ignore are for files")
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
        checked=checked.parts[0].checked,
    )
