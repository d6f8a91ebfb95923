"""Command `fork`."""

from __future__ import annotations

from typing import Literal

import click

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import OneOf, takes_db, takes_name
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, done


@command("fork", example="stenolog fork demo --after 4 --name retry")
@click.option("--after", metavar="ENTRY", help="Fork after this entry or time,")
@click.option("--before", metavar="ENTRY", help="or before it.")
@click.option("--name", metavar="NAME", help="Default: made from the parent's.")
@click.option(
    "--pending",
    type=OneOf(["close", "keep"]),
    default="close",
    show_default=True,
    help="Calls that were running.",
)
@takes_name
@takes_db
def fork_command(
    db: Database,
    target: str,
    after: str | None,
    before: str | None,
    name: str | None,
    pending: Literal["close", "keep"],
) -> CommandResult:
    """Begin a new conversation that shares a beginning."""
    if (after is None) == (before is None):
        raise click.UsageError("say where: --after ENTRY or --before ENTRY")
    conversation = find_conversation(open_log(db), target)
    position = (
        resolve(conversation, after, least=0) if after is not None else resolve(conversation, str(before)) - 1
    )
    fork = conversation.fork(after=position, name=name, pending=pending)
    words = (
        f"{fork.name} begins after {conversation.name}@{position}, with which it shares {position} entries"
    )
    return done(words, conversation=fork.name, fork_of=conversation.name, after=position, head=fork.position)
