"""`budget`, `whatif`, `bisect`: what another policy, or another log, would do. No model is called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stenolog.adapters.providers.prices import prices_of, source
from stenolog.adapters.queries.token_counters import COUNTERS
from stenolog.domain.errors import InvalidEventError
from stenolog.domain.policy import Policy, policy
from stenolog.domain.policy_text import amount, policy_of
from stenolog.domain.values import PositionRange
from stenolog.projections.analysis.budget import BudgetRow, budget, with_tokens
from stenolog.projections.analysis.explain import bisect
from stenolog.projections.analysis.whatif import WhatIf, whatif

from .framework import command
from .lines import CommandResult, Piece
from .lookup import find_conversation, open_log
from .options import takes_conversation
from .position_argument import resolve
from .terminal import progress
from .view_commands import lane, only_agent, own_api, takes_agent, takes_api

if TYPE_CHECKING:
    from stenolog.adapters.log import Conversation

AT = click.option("--at", default="@", help="Up to this position or time.")
THERE = click.Path(dir_okay=False, path_type=Path)


@command("budget")
@takes_agent
@click.option("--tokens", "written", metavar="N,N…", help="The budgets: 8k,16k,32k.")
@click.option("--policy", "policies", multiple=True, help="full,last:50 … or JSON; else the card's.")
@click.option("--prices", type=THERE, help="A TOML or JSON file with your prices.")
@AT
@takes_api
@takes_conversation
def budget_command(
    db: Path,
    target: str,
    agent: str | None,
    written: str | None,
    policies: tuple[str, ...],
    prices: Path | None,
    at: str,
    api: str | None,
) -> CommandResult:
    """Try policies and budgets on an agent's requests. What fits, what is lost, what it costs."""
    conversation = find_conversation(open_log(db), target)
    position = resolve(conversation, at)
    named = agent or only_agent(conversation, position)
    api = api or own_api(conversation, named)
    rows = list(
        progress(
            budget(
                conversation.entries(at=position),
                **lane(named)._asdict(),
                policies=_policies(policies) or [_on_card(conversation, named, position)],
                tokens=[None] if written is None else [amount(one, "--tokens") for one in written.split(",")],
                api=api,
                prices=prices_of(prices),
                blobs=conversation.log.blobs,
                counters=COUNTERS,
            ),
            "building every request",
        )
    )
    data = {
        "conversation": conversation.name,
        "agent": named,
        "api": api,
        "rows": [_row_data(row) for row in rows],
    }

    def draw() -> Iterable[Piece]:
        from .render_policy import budget_drawn

        return budget_drawn(rows, "" if prices else source())

    return CommandResult(data, draw)


def _policies(written: Iterable[str]) -> list[Policy]:
    """Return the policies of all the options: several in one are divided by commas, JSON is one."""
    pieces = (
        piece
        for option in written
        for piece in ([option] if option.lstrip().startswith("{") else option.split(","))
    )
    return [made for piece in pieces if (made := policy_of(piece)) is not None]


def _on_card(conversation: Conversation, address: str, position: int) -> Policy:
    """Return the policy on the agent's card at a position."""
    card = conversation.settings(at=position).cards.get(lane(address).agent)
    return policy(card.policy if card else None)


def _row_data(row: BudgetRow) -> dict[str, Any]:
    return {**row._asdict(), "policy": row.policy.json}


@command("whatif")
@takes_agent
@click.option("--without", multiple=True, metavar="Q[-R]", help="Hide these positions: 91 or 40-44,91.")
@click.option("--policy", "written", help="Under this policy: full, last:50 …")
@click.option("--budget", "tokens", metavar="N", help="Under a budget of so many tokens: 16k.")
@click.option("--at", default="@", help="As it would be sent at this position or time.")
@takes_api
@takes_conversation
def whatif_command(
    db: Path,
    target: str,
    agent: str | None,
    without: tuple[str, ...],
    written: str | None,
    tokens: str | None,
    at: str,
    api: str | None,
) -> CommandResult:
    """Show the request as it might be, beside the real one. Without some entries, or under another policy."""
    if not without and written is None and tokens is None:
        raise click.UsageError("name what would be otherwise: --without, --policy or --budget")
    conversation = find_conversation(open_log(db), target)
    position = resolve(conversation, at)
    named = agent or only_agent(conversation, position)
    api = api or own_api(conversation, named)
    chosen = policy_of(written)
    if tokens is not None:
        chosen = with_tokens(
            _on_card(conversation, named, position) if chosen is None else chosen, amount(tokens, "--budget")
        )
    made = whatif(
        conversation.entries(at=position),
        **lane(named)._asdict(),
        without=[*_spans(conversation, without)],
        policy=chosen,
        api=api,
        blobs=conversation.log.blobs,
        counters=COUNTERS,
    )

    def draw() -> Iterable[Piece]:
        from .render_policy import whatif_drawn

        return whatif_drawn(made)

    return CommandResult(_whatif_data(conversation, named, made), draw)


def _spans(conversation: Conversation, written: Iterable[str]) -> Iterator[PositionRange]:
    """Yield the positions to be hidden: `91`, `40-44`, several divided by commas."""
    for piece in (piece.strip() for option in written for piece in option.split(",")):
        first, dash, last = piece.partition("-")
        if not (first.strip().isdecimal() and (last.strip().isdecimal() or not dash)):
            first, last = piece, ""
        begin = resolve(conversation, first.strip())
        yield PositionRange(first=begin, last=resolve(conversation, last.strip()) if last else begin)


def _whatif_data(conversation: Conversation, address: str, made: WhatIf) -> dict[str, Any]:
    from .view_commands import request_data

    return {
        "conversation": conversation.name,
        "agent": address,
        "same": made.same,
        "difference": made.difference,
        "real": request_data(made.real),
        "other": request_data(made.other),
    }


@command("bisect")
@takes_agent
@click.option("--contains", "text", required=True, metavar="TEXT", help="The words that were to be known.")
@click.option("--policy", "written", help="Under this policy: full, last:50 …; else the agent's own.")
@AT
@takes_api
@takes_conversation
def bisect_command(
    db: Path, target: str, agent: str | None, text: str, written: str | None, at: str, api: str | None
) -> CommandResult:
    """Find where an agent last had a text in its request. And what took it away."""
    if not text:
        raise InvalidEventError("--contains: expected a text, found nothing")
    conversation = find_conversation(open_log(db), target)
    position = resolve(conversation, at)
    named = agent or only_agent(conversation, position)
    api = api or own_api(conversation, named)
    entries = progress(
        conversation.entries(at=position), f"looking through the requests of {named}", position
    )
    made = bisect(
        entries,
        text=text,
        **lane(named)._asdict(),
        api=api,
        policy=policy_of(written),
        blobs=conversation.log.blobs,
        counters=COUNTERS,
    )
    data = {"conversation": conversation.name, "agent": named, **made._asdict()}

    def draw() -> Iterable[Piece]:
        from .render_policy import bisect_drawn

        told = {
            at: one for at in (*made.source, made.vanished) if at for one in conversation.entries(at - 1, at)
        }
        return bisect_drawn(made, named, told)

    return CommandResult(data, draw)
