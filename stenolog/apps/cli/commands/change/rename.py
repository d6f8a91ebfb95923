"""Command `rename`."""

from __future__ import annotations

import click

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import takes_db, takes_name
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, done


@command("rename", example="stenolog rename demo parser")
@takes_name
@click.argument("new")
@takes_db
def rename_command(db: Database, target: str, new: str) -> CommandResult:
    """Give a conversation another name.

    Digests stay. An import of its file goes on with it.
    """
    conversation = find_conversation(open_log(db), target)
    old = conversation.name
    conversation.rename(new)
    return done(f"{old} is now {new}", old=old, conversation=new)
