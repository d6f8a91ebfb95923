"""Command `check all`."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import click

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import open_log
from stenolog.apps.cli.arguments.options import names, takes_db, takes_format, takes_jobs
from stenolog.apps.cli.draw.check_summary import CheckResults, messages, summary, takes_verbose
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult

from .log import checked_log
from .requests import checked_requests


@command("all", example="stenolog check")
@takes_format
@takes_jobs
@takes_verbose
@click.argument("words", metavar="[CONVERSATION | FILE...]", nargs=-1, shell_complete=names)
@takes_db
def check_all_command(db: Database, words: tuple[str, ...], jobs: int | None, verbose: bool) -> CommandResult:
    """Check the log, and every agent's request, of all conversations.

    `check log`, then `check requests`; the last line says what failed. A word is a conversation's name, else
    a file, and checked as by `check file`.
    """
    if len(words) > 1 or (words and Path(words[0]).exists() and not _is_name(db, words[0])):
        from stenolog.apps.cli.commands.change.import_ import paths_of  # late: a log needs no importers

        from .file import checked_files

        return checked_files(paths_of([*map(Path, words)], []))
    log, target = open_log(db), "".join(words)
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


def _is_name(db: Database, word: str) -> bool:
    """Return whether a conversation has that name."""
    is_there = not isinstance(db, Path) or db.exists()
    return is_there and word in open_log(db)
