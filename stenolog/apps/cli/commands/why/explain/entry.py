"""Command `explain entry`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from stenolog.apps.cli.arguments.agent import (
    takes_conditions,
)
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_both, open_log
from stenolog.apps.cli.arguments.options import takes_at, takes_conversation_and
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece
from stenolog.apps.views.lanes import means
from stenolog.domain.policy_text import policy_of

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation
    from stenolog.domain.entry import Entry


@command("entry", example="stenolog explain demo 5")
@takes_at
@click.option("--bytes", "as_bytes", is_flag=True, help="The bytes of the request, part by part.")
@takes_conditions
@takes_conversation_and("[ENTRY]")
def explain_entry_command(
    db: Database, words: tuple[str, ...], at: str, as_bytes: bool, api: str | None, policy: str | None
) -> CommandResult:
    """Say where an entry went, and what it led to.

    Into whose requests, when, in which form. Without ENTRY: the last entry.
    """
    from stenolog.apps.views.entries import bill_of_answer, explained, explanation_data, rebuilt_notes

    conversation, written = find_both(open_log(db), words, "@")
    end, position = resolve(conversation, at), resolve(conversation, written)
    log = list(conversation.entries(at=end))
    if as_bytes:
        return _bytes_of(conversation, log, position)
    explanation = explained(conversation, log, position, api=api, policy=policy_of(policy))
    billed = bill_of_answer(conversation, explanation.entry)
    data = explanation_data(conversation, len(log), explanation, billed)

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.explain import explanation_drawn

        return explanation_drawn(explanation, log, billed)

    return CommandResult(data, draw, diagnostics=rebuilt_notes(conversation, explanation))


def _bytes_of(conversation: Conversation, log: list[Entry], position: int) -> CommandResult:
    from stenolog.projections.analysis.byte_ranges import byte_ranges, sent_request

    request, transport = sent_request(log, position, **means(conversation))
    found = byte_ranges(request, transport)
    data = {"conversation": conversation.name, "position": position, "bytes": found}

    def draw() -> Iterable[Piece]:
        for one in found:
            yield f"{one.first:>9,} {one.end - one.first:>9,}  {one.pointer or '/'}  {one.source}"

    return CommandResult(data, draw)
