"""Command `explain answer`."""

from __future__ import annotations

from collections.abc import Iterable

from stenolog.apps.cli.arguments.agent import takes_agent
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_both, open_log
from stenolog.apps.cli.arguments.options import takes_conversation_and
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece


@command("answer", example="stenolog explain answer demo 7")
@takes_agent
@takes_conversation_and("[ENTRY]")
def explain_answer_command(db: Database, words: tuple[str, ...], agent: str | None) -> CommandResult:
    """Say which part of its request an answer depends on.

    A line of the system text, a tool, or an entry. Without ENTRY: the last answer.
    """
    from stenolog.apps.views.answer_causes import AnswerCauses, answer_in_parts, causes_data, last_answer
    from stenolog.projections.analysis.retry.halving import Terms

    conversation, written = find_both(open_log(db), words, "")
    position = resolve(conversation, written) if written else last_answer(conversation, agent)
    whole, terms = answer_in_parts(conversation, position), Terms()

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.answer_causes import parts_drawn

        return parts_drawn(whole.parts, terms)

    return CommandResult(causes_data(conversation, AnswerCauses(whole), terms), draw)
