"""Command `explain text`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stenolog.apps.cli.arguments.agent import (
    agent_or_only,
    takes_agent,
    takes_conditions,
)
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_both, open_log
from stenolog.apps.cli.arguments.options import takes_at, takes_conversation_and
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece
from stenolog.apps.cli.terminal import progress
from stenolog.apps.views.lanes import lacking, lane, means, own_api
from stenolog.domain.errors import InvalidEventError
from stenolog.domain.policy_text import policy_of

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log


@command("text", example="stenolog explain text demo pytest --agent coder")
@takes_agent
@takes_at
@takes_conditions
@takes_conversation_and("TEXT")
def explain_text_command(
    db: Database, words: tuple[str, ...], agent: str | None, at: str, api: str | None, policy: str | None
) -> CommandResult:
    """Say where an agent last had a text, and what removed it.

    With neither CONVERSATION nor an option: every entry, request and agent that the text reached, in all
    conversations, blobs, drafts and tables. Encoded or rephrased text is not found.
    """
    from stenolog.projections.analysis.text_fate import text_fate

    log = open_log(db)
    if len(words) == 1 and not (agent or api or policy) and at == "@":
        return _everywhere(log, words[0])
    conversation, text = find_both(log, words)
    if not text:
        raise InvalidEventError("expected a text, found nothing")
    position = resolve(conversation, at)
    named = agent_or_only(conversation, agent, position)
    api = api or own_api(conversation, named)
    entries = progress(
        conversation.entries(at=position), f"looking through the requests of {named}", position
    )
    found = text_fate(
        entries,
        text=text,
        **lane(named)._asdict(),
        api=api,
        policy=policy_of(policy),
        **means(conversation),
    )
    note = lacking(conversation, named)
    data = {"conversation": conversation.name, "agent": named, **found._asdict(), "note": note}

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.policy import bisect_drawn

        explained = {
            at: one
            for at in (*found.source, found.vanished)
            if at
            for one in conversation.entries(at - 1, at)
        }
        return bisect_drawn(found, named, explained, note)

    return CommandResult(data, draw)


def _everywhere(log: Log, text: str) -> CommandResult:
    from stenolog.adapters.conversation.verifying.trace import trace_value

    found = trace_value(log, text)
    data = {"reached": found.reached, "agents": found.agents, "providers": found.providers}

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.reached import reached_drawn

        return reached_drawn(found, log)

    return CommandResult(data, draw)
