"""Command `log`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import click

from stenolog.adapters.conversation.queries.backwards import backwards
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import takes_any_kinds, takes_at, takes_conversation
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.arguments.time import period
from stenolog.apps.cli.draw.entry_lines import log_lines
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult
from stenolog.domain.entry import Entry
from stenolog.projections.views.lines import is_of_kind

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation


@command("log", example="stenolog log demo -n 5")
@click.option("-n", "--limit", "last", metavar="N", type=click.IntRange(min=1), help="Only the last N.")
@click.option("--after", metavar="ENTRY", default="0", help="Only what comes after it.")
@takes_at
@click.option("--since", metavar="TIME", help="Only from this time on.")
@click.option("--until", metavar="TIME", help="Only up to this time.")
@click.option(
    "--all", "-a", "whole", is_flag=True, help="Include entries that only record another program's settings."
)
@takes_any_kinds
@takes_conversation
def log_command(
    db: Database,
    target: str,
    last: int | None,
    after: str,
    at: str,
    whole: bool,
    kinds: tuple[str, ...],
    **times: str | None,
) -> CommandResult:
    """Show the entries, one a line."""
    conversation = find_conversation(open_log(db), target)
    first, position = resolve(conversation, after, least=0), resolve(conversation, at)
    chosen = partial(_chosen, conversation, first, position, last, _wanted(kinds, **times))
    return CommandResult(
        lambda: {"conversation": conversation.name, "entries": chosen()},
        lambda: log_lines(chosen(), conversation, all=whole or bool(kinds)),
    )


def _wanted(kinds: Collection[str], since: str | None, until: str | None) -> Callable[[Entry], bool]:
    times = period(since, until)
    return lambda entry: (
        entry.time in times and (not kinds or any(is_of_kind(entry.event, kind) for kind in kinds))
    )


def _chosen(
    conversation: Conversation, after: int, position: int, last: int | None, wanted: Callable[[Entry], bool]
) -> Iterator[Entry]:
    if last is None:
        return filter(wanted, conversation.entries(after=after, at=position))
    back = (entry for entry in filter(wanted, backwards(conversation, position)) if entry.position > after)
    return reversed(list(islice(back, last)))
