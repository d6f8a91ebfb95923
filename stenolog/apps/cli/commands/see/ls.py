"""Command `ls`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from stenolog.adapters.conversation.queries.overviews import listed
from stenolog.adapters.providers.prices import source
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import (
    names,
    takes_db,
)
from stenolog.apps.cli.arguments.time import period
from stenolog.apps.cli.draw.conversation_list import list_drawn
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Diagnostic, Piece, counted
from stenolog.apps.cli.terminal import width
from stenolog.apps.views.conversations import Selection, conversation_data

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log


NONE_YET = "no conversation yet: `stenolog import FILE` brings one in"


@command("ls", example="stenolog ls --since 3d")
@click.argument("part", required=False, default="")
@click.option("--all", "-a", "archived", is_flag=True, help="Archived ones too.")
@click.option("--since", metavar="TIME", help="Active since.")
@click.option("--until", metavar="TIME", help="Last entry up to then.")
@click.option("--older-than", "before", metavar="CONVERSATION", shell_complete=names, help="Only older ones.")
@click.option(
    "-n",
    "--limit",
    metavar="N",
    type=click.IntRange(min=0),
    default=50,
    help="At most N; 0: all. Default: 50.",
)
@takes_db
def ls_command(
    db: Database,
    part: str,
    archived: bool,
    since: str | None,
    until: str | None,
    before: str | None,
    limit: int,
) -> CommandResult:
    """List the conversations, the newest last.

    PART is a part of the name, folder, branch or title. STATE: failed, approval (a person is asked), open (a
    model or tool has yet to answer), or empty. ERRORS: failed model calls. ≥: part of a cost is unknown. With
    --json the newest is first.
    """
    log, times = open_log(db), period(since, until)
    which: dict[str, Any] = {
        "archived": archived,
        "active_since": times.first,
        "active_until": times.last,
        "older_than": "" if before is None else find_conversation(log, before).name,
    }
    if part:
        every = list(_with_part(log, part, which))
        shown, older = every[: limit or None], len(every[limit or len(every) :])
    else:
        shown = log.names(**which, limit=limit or None, order="latest")
        is_full = limit and len(shown) == limit
        older = log.count(**which, order="latest") - limit if is_full else 0
    rows = [conversation_data(log, name) for name in shown]
    notes = (
        (*_more(shown[-1], older), *_examples(rows))
        if rows
        else _none(log, part, which, {"--since": since, "--until": until, "--older-than": before})
    )

    def draw() -> Iterable[Piece]:
        now = datetime.now(UTC) if sys.stdout.isatty() else None
        return list_drawn(rows[::-1], width(), now) if rows else ()

    return CommandResult(rows, draw, diagnostics=notes)


def _with_part(log: Log, part: str, which: dict[str, Any]) -> Iterator[str]:
    for name in log.names(**which, order="latest"):
        if Selection(part).has(listed(log[name])):
            yield name


def _none(log: Log, part: str, which: dict[str, Any], asked: dict[str, str | None]) -> tuple[Diagnostic, ...]:
    """Explain an empty list: no such part, or none passes the filters."""

    def count(*, archived: bool) -> int:
        if not part:
            return log.count(archived=archived)
        return sum(1 for _ in _with_part(log, part, {"archived": archived}))

    words = f"no conversation has {part!r} in its name, project, branch or title" if part else NONE_YET
    if named := count(archived=which["archived"]):
        filters = (f"{option} {shlex.quote(value)}" for option, value in asked.items() if value is not None)
        words = f"of {counted(named, 'conversation')} none passes {' '.join(filters)}"
    elif archived := count(archived=True):
        words = f"{counted(archived, 'conversation')} put away: --all shows archived ones too"
    return (Diagnostic("note", "none", words),)


def _examples(rows: Iterable[dict[str, Any]]) -> tuple[Diagnostic, ...]:
    if not any(row["cost_is_by_example_prices"] for row in rows):
        return ()
    return (Diagnostic("note", "example-prices", f"USD at {source()}"),)


def _more(oldest: str, many: int) -> tuple[Diagnostic, ...]:
    if many <= 0:
        return ()
    return (
        Diagnostic(
            "note", "more", f"{many:,} older ones: --older-than {shlex.quote(oldest)}; -n 0 shows all"
        ),
    )
