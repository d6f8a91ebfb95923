"""Command `timeline`."""

from __future__ import annotations

from collections.abc import Iterable

import click

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import takes_at, takes_conversation
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, pass_token
from stenolog.domain.events import AssistantMessage


@command("timeline", example="stenolog timeline demo --at 2h")
@takes_at
@click.option("--full", is_flag=True, help="Cut and fold nothing.")
@takes_conversation
def timeline_command(db: Database, target: str, at: str, full: bool) -> CommandResult:
    """Show a conversation as a person reads it.

    Messages, tools with their results, errors, changes of settings, cuts.
    """
    conversation = find_conversation(open_log(db), target)
    position = resolve(conversation, at)
    items = conversation.timeline(at=position)

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.arguments.editor import file_links
        from stenolog.apps.cli.draw.timeline import drawn_timeline, files_line

        settings = conversation.settings(position)
        # A compaction took its words from the model, not from the reader; whoever rewinds takes them back.
        compacted = [
            span
            for entry in (conversation.entries(0, position) if settings.hides else ())
            if isinstance(entry.event, AssistantMessage)
            for span in entry.event.covers
        ]
        yield from drawn_timeline(
            items,
            pass_token(settings.turns),
            full=full,
            hides=settings.hides,
            compacted=compacted,
            link=file_links(conversation),
        )
        yield from files_line(items)

    return CommandResult({"conversation": conversation.name, "items": items}, draw)
