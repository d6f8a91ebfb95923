"""Command `tail`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import click

from stenolog.adapters.conversation.queries.backwards import backwards
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import (
    takes_conversation,
)
from stenolog.apps.cli.draw.entry_lines import carries_settings_of, entry_line
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, line
from stenolog.domain.entry import Entry


@command("tail", example="stenolog tail demo")
@click.option(
    "-n",
    "--limit",
    "last",
    metavar="N",
    type=click.IntRange(min=0),
    default=10,
    help="Begin N back. Default: 10.",
)
@click.option("--timeout", type=float, help="Stop after so many quiet seconds.")
@click.option(
    "--all", "-a", "whole", is_flag=True, help="Include entries that record only a program's settings."
)
@takes_conversation
def tail_command(db: Database, target: str, last: int, timeout: float | None, whole: bool) -> CommandResult:
    """Show the last entries, then each new one."""
    conversation = find_conversation(open_log(db), target)
    head = conversation.position

    def is_shown(entry: Entry) -> bool:
        return whole or not carries_settings_of(entry.event)

    def draw() -> Iterator[Piece]:
        from stenolog.apps.views.caches import miss_line

        back = islice(filter(is_shown, backwards(conversation, head)), last)
        first = min((entry.position for entry in back), default=head + 1)
        entries = conversation.tail(after=first - 1, timeout=timeout)
        for entry in filter(is_shown, entries):
            yield entry_line(entry, conversation=conversation)
            if missed := miss_line(conversation, entry):
                yield line((f"    {missed}", "yellow"))

    entries = conversation.tail(after=max(0, head - last), timeout=timeout)
    return CommandResult(entries, draw, streams=True)
