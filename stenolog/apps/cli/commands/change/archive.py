"""Command `archive`."""

from __future__ import annotations

import click

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import takes_db, takes_name
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, done


@command("archive", example="stenolog archive demo")
@click.option("--undo", is_flag=True, help="Bring it back.")
@takes_name
@takes_db
def archive_command(db: Database, target: str, undo: bool) -> CommandResult:
    """Hide a conversation from `ls`."""
    conversation = find_conversation(open_log(db), target)
    if undo:
        conversation.unarchive()
        return done(f"{conversation.name} is back", conversation=conversation.name, archived=False)
    conversation.archive()
    return done(f"{conversation.name} is archived", conversation=conversation.name, archived=True)
