"""Command `delete`."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING

import click

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import takes_db, takes_name
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, counted, done
from stenolog.apps.cli.terminal import ask

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation


LOOKED_AT = 100
"""Among so many of its first entries one from a file is looked for."""


@command("delete", example="stenolog delete demo --yes")
@click.option("--yes", is_flag=True, help="Do not ask.")
@takes_name
@takes_db
def delete_command(db: Database, target: str, yes: bool) -> CommandResult:
    """Delete a conversation permanently.

    Not one with forks. Write its whole name. Imports of its file leave it out.
    """
    log = open_log(db)
    conversation = find_conversation(log, target)
    if not target == conversation.name:
        raise click.UsageError(f"to delete, write the whole name: {conversation.name!r}")
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("cannot ask for confirmation here: add --yes")
    entries, words = _entry_count(conversation)
    if not yes:
        ask(f"Delete {conversation.name!r} and its {words} for good?", "nothing was deleted")
    again = _brought_back_by(conversation)
    conversation.delete()
    return done(
        f"{conversation.name} is deleted, with {words}{again}",
        conversation=conversation.name,
        entries=entries,
    )


def _brought_back_by(conversation: Conversation) -> str:
    shared = conversation.log.recorder.lineage(conversation.stream)[-1].after
    own = islice(conversation.entries(after=shared), LOOKED_AT)
    came = any(getattr(entry.event, "source", None) for entry in own)
    return "; import --again FILE brings it back" if came else ""


def _entry_count(conversation: Conversation) -> tuple[int, str]:
    shared = conversation.log.recorder.lineage(conversation.stream)[-1].after
    own = conversation.position - shared
    return own, counted(own, "entry", "entries") + (" of its own" if shared else "")
