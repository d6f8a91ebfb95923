"""Command `explain answer`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from stenolog.apps.cli.arguments.agent import takes_agent
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_both, open_log
from stenolog.apps.cli.arguments.options import takes_conversation_and
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.commands.why._asking import AskOptions, takes_asking
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece
from stenolog.apps.views.lanes import unrecorded

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation
    from stenolog.apps.views.answer_causes import AnswerCauses
    from stenolog.projections.analysis.retry.halving import Terms
    from stenolog.projections.analysis.retry.leaving_out import Divided


@command("answer", example="stenolog explain answer demo 7 --ask 32 --budget 2")
@takes_agent
@takes_asking
@takes_conversation_and("[ENTRY]")
def explain_answer_command(
    db: Database, words: tuple[str, ...], agent: str | None, asking: AskOptions
) -> CommandResult:
    """Say which part of its request an answer depends on.

    A line of the system text, a tool, or an entry. Without --ask: the parts, or what the kept answers say.
    Without ENTRY: the last answer.
    """
    from stenolog.apps.views.answer_causes import (
        answer_in_parts,
        causes_data,
        causes_so_far,
        last_answer,
    )
    from stenolog.projections.analysis.retry.halving import SAMPLES, Terms

    conversation, written = find_both(open_log(db), words, "")
    position = resolve(conversation, written) if written else last_answer(conversation, agent)
    whole, terms = answer_in_parts(conversation, position), Terms(asking.ask or SAMPLES, asking.confidence)
    if asking.ask is None:
        causes = causes_so_far(conversation, whole, asking.answers, confidence=asking.confidence)
    else:
        causes = _causes_by_asking(conversation, whole, terms, asking, db)

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.answer_causes import causes_drawn, parts_drawn

        return causes_drawn(causes, terms) if causes.found else parts_drawn(whole.parts, terms)

    notes = unrecorded(conversation, whole.case.lane.address)
    return CommandResult(causes_data(conversation, causes, terms), draw, diagnostics=notes)


def _causes_by_asking(
    conversation: Conversation, whole: Divided, terms: Terms, asking: AskOptions, db: Database
) -> AnswerCauses:
    from stenolog.apps.cli.commands.why import _asking
    from stenolog.apps.views.answer_causes import CauseSearch, asked_causes, search_estimate
    from stenolog.projections.analysis.retry.halving import least_samples

    if asking.judge == "calls" and not whole.case.answer.tool_calls:
        raise click.UsageError(
            f"the answer at {whole.case.position} calls no tool, so every text would be the same: say what "
            "counts with --judge schema:FILE, MODULE:FUNCTION or model:KIND:NAME"
        )

    least = least_samples(len(whole.parts), terms.confidence)
    if terms.samples < least:
        raise click.UsageError(f"--ask: expected at least {least} to name one of {len(whole.parts)} parts")

    def search() -> CauseSearch:
        return CauseSearch(conversation, whole, terms, asking.through or "")

    return _asking.ask_panel(
        asking,
        db,
        lambda panel: search_estimate(search(), panel),
        lambda panel: asked_causes(search(), panel),
    )
