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
from stenolog.apps.views.positions import is_number
from stenolog.domain.policy_text import policy_of

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation
    from stenolog.domain.entry import Entry


@command("entry", example="stenolog explain demo 5")
@takes_at
@click.option("--bytes", "as_bytes", is_flag=True, help="The bytes of the request, part by part.")
@takes_conditions
@takes_conversation_and("[ENTRY[/CALL]]")
def explain_entry_command(
    db: Database, words: tuple[str, ...], at: str, as_bytes: bool, api: str | None, policy: str | None
) -> CommandResult:
    """Say who asked for an entry, where it went, and what it led to.

    From the entry, or one of its calls (57/2), back to a person's words; into whose requests, when, in which
    form. Without ENTRY: the last entry.
    """
    from stenolog.apps.views.entries import bill_of_answer, explained, explanation_data, rebuilt_notes
    from stenolog.projections.analysis.blame import blame

    conversation, written = find_both(open_log(db), words, "@")
    where, call = _call(written)
    end, position = resolve(conversation, at), resolve(conversation, where)
    log = list(conversation.entries(at=end))
    if as_bytes:
        return _bytes_of(conversation, log, position)
    explanation = explained(conversation, log, position, api=api, policy=policy_of(policy))
    asked = blame(log, position, call)
    billed = bill_of_answer(conversation, explanation.entry)
    data = explanation_data(conversation, len(log), explanation, asked, billed)

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.explain import blame_drawn, explanation_drawn

        if call is not None:
            return blame_drawn(asked)
        return explanation_drawn(explanation, log, asked, billed)

    return CommandResult(data, draw, diagnostics=rebuilt_notes(conversation, explanation))


def _call(written: str) -> tuple[str, int | None]:
    where, _, nth = written.rpartition("/")
    return (where, int(nth) - 1) if is_number(nth) and where else (written, None)


def _bytes_of(conversation: Conversation, log: list[Entry], position: int) -> CommandResult:
    from stenolog.projections.analysis.byte_ranges import byte_ranges, sent_request

    request, transport = sent_request(log, position, **means(conversation))
    found = byte_ranges(request, transport)
    data = {"conversation": conversation.name, "position": position, "bytes": found}

    def draw() -> Iterable[Piece]:
        for one in found:
            yield f"{one.first:>9,} {one.end - one.first:>9,}  {one.pointer or '/'}  {one.source}"

    return CommandResult(data, draw)
