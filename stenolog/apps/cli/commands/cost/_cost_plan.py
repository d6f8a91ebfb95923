"""`cost --plan`: what policies and budgets would cost an agent, and what they would lose."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from stenolog.adapters.providers.prices import prices_of, source
from stenolog.apps.cli.arguments.agent import agent_or_only
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.lines import CommandResult, Piece
from stenolog.apps.cli.terminal import progress
from stenolog.apps.views.lanes import lane, means, on_card, own_api
from stenolog.domain.policy import Policy
from stenolog.domain.policy_text import amount, policy_of
from stenolog.projections.analysis.budget import budget

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation


def planned(
    conversation: Conversation,
    *,
    agent: str | None,
    budgets: str | None,
    policies: tuple[str, ...],
    prices: Path | None,
    at: str,
    api: str | None,
) -> CommandResult:
    """Try policies and budgets on an agent's requests."""
    position = resolve(conversation, at)
    named = agent_or_only(conversation, agent, position)
    api = api or own_api(conversation, named)
    rows = list(
        progress(
            budget(
                conversation.entries(at=position),
                **lane(named)._asdict(),
                policies=_policies(policies) or [on_card(conversation, named, position)],
                tokens=[None] if budgets is None else [amount(one, "--budget") for one in budgets.split(",")],
                api=api,
                prices=prices_of(prices),
                **means(conversation),
            ),
            "building every request",
        )
    )
    data = {
        "conversation": conversation.name,
        "agent": named,
        "api": api,
        "rows": [{**row._asdict(), "policy": row.policy.json} for row in rows],
    }

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.policy import budget_drawn

        return budget_drawn(rows, "" if prices else source())

    return CommandResult(data, draw)


def _policies(written: Iterable[str]) -> list[Policy]:
    """Return all options' policies: separated by commas, or one as JSON."""
    pieces = (
        piece
        for option in written
        for piece in ([option] if option.lstrip().startswith("{") else option.split(","))
    )
    return [policy for piece in pieces if (policy := policy_of(piece)) is not None]
