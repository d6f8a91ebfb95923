"""Command `explain call`."""

from __future__ import annotations

from collections.abc import Iterable

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_both, open_log
from stenolog.apps.cli.arguments.options import takes_conversation_and
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece
from stenolog.apps.views.positions import is_number


@command("call", example="stenolog explain call demo 3")
@takes_conversation_and("ENTRY[/CALL]")
def explain_call_command(db: Database, words: tuple[str, ...]) -> CommandResult:
    """Say who asked for a tool call.

    From the call at 57 (its second: 57/2) back to a person's words.
    """
    from stenolog.projections.analysis.blame import blame

    conversation, position = find_both(open_log(db), words)
    where, nth = _call(position)
    found = blame(conversation.entries(), resolve(conversation, where), nth)

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.explain import blame_drawn

        return blame_drawn(found)

    return CommandResult({"conversation": conversation.name, **found._asdict()}, draw)


def _call(written: str) -> tuple[str, int | None]:
    where, _, nth = written.rpartition("/")
    return (where, int(nth) - 1) if is_number(nth) and where else (written, None)
