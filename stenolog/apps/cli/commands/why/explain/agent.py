"""Command `explain agent`."""

from __future__ import annotations

from collections.abc import Iterable

import click

from stenolog.apps.cli.arguments.agent import (
    AGENT,
    address,
    known_agent,
    takes_conditions,
)
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_both, open_log
from stenolog.apps.cli.arguments.options import takes_at, takes_conversation_and
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece
from stenolog.apps.views.lanes import lane, means, own_api
from stenolog.domain.policy_text import policy_of


@command("agent", example="stenolog explain agent demo coder --minus reviewer")
@click.option("--minus", required=True, metavar="NAME", help=f"Who has not seen it: {AGENT}.")
@takes_at
@takes_conditions
@takes_conversation_and("AGENT")
def explain_agent_command(
    db: Database, words: tuple[str, ...], minus: str, at: str, api: str | None, policy: str | None
) -> CommandResult:
    """Say what an agent has seen and another has not."""
    from stenolog.projections.analysis.knowledge import view

    conversation, agent = find_both(open_log(db), words)
    for written, option in ((agent, "AGENT"), (minus, "--minus")):
        address(written, option)
        known_agent(conversation, written)
    log = list(conversation.entries(at=resolve(conversation, at)))
    api = api or own_api(conversation, agent)
    seen = view(log, lane(agent), lane(minus), api=api, policy=policy_of(policy), **means(conversation))
    data = {"conversation": conversation.name, "at": len(log), "agent": agent, "minus": minus, "seen": seen}

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.explain import view_drawn

        return view_drawn(seen, agent, minus, log)

    return CommandResult(data, draw)
