"""Command `show`."""

from __future__ import annotations

from collections.abc import Iterable

import click

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_both, open_log
from stenolog.apps.cli.arguments.options import (
    takes_conversation_and,
)
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece


@command("show", example="stenolog show demo @{error}")
@click.option("--raw", is_flag=True, help="Only text and arguments of tool calls.")
@takes_conversation_and("[ENTRY]")
def show_command(db: Database, words: tuple[str, ...], raw: bool) -> CommandResult:
    """Show one entry whole; the last one without ENTRY.

    Signatures are counted; --json has them.
    """
    conversation, position = find_both(open_log(db), words, "@")
    wanted = resolve(conversation, position)
    (shown,) = conversation.entries(after=wanted - 1, at=wanted)

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.entry import full_entry, raw_entry

        return raw_entry(shown) if raw else full_entry(shown, conversation)

    return CommandResult(shown, draw)
