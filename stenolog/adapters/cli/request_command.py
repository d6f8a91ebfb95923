"""`request`: what an agent's model is sent, why, and what it would be sent otherwise. No model is called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from stenolog.adapters.queries.bills import bill_of
from stenolog.domain.errors import InvalidEventError
from stenolog.domain.policy import Policy, policy
from stenolog.domain.policy_text import amount, policy_of
from stenolog.domain.values import PositionRange
from stenolog.projections.analysis.provider_bill import NO_BILL, Bill
from stenolog.projections.analysis.whatif import WhatIf, whatif
from stenolog.projections.requests import Request

from .agent_request import (
    address,
    lane,
    means,
    only_agent,
    own_api,
    print_raw,
    request_data,
    request_of,
    request_reference,
    say_on_stderr,
    slip,
    takes_agent,
    takes_api,
    unrecorded,
)
from .framework import command
from .lines import CommandResult, Piece
from .lookup import find_conversation, open_log
from .options import takes_conversation
from .position_argument import position_ranges, resolve

if TYPE_CHECKING:
    from stenolog.adapters.log import Conversation


class Asked(NamedTuple):
    """An agent's request at a position, and what is to be otherwise in it."""

    conversation: Conversation
    agent: str
    at: int
    api: str | None
    policy: Policy | None
    without: Sequence[PositionRange]

    @property
    def is_changed(self) -> bool:
        """Return whether it is another request than the real one."""
        return self.policy is not None or bool(self.without)

    def request(self) -> Request:
        """Return the request as it was asked for."""
        if self.without:
            return self.whatif().other
        return request_of(self.conversation, self.agent, self.at, self.api, self.policy)

    def whatif(self) -> WhatIf:
        """Return it beside the real one."""
        return whatif(
            self.conversation.entries(at=self.at),
            **lane(self.agent)._asdict(),
            without=self.without,
            policy=self.policy,
            api=self.api or own_api(self.conversation, self.agent),
            **means(self.conversation),
        )


@command("request", example="stenolog request demo --agent coder --at 9 --diff 6")
@takes_agent
@click.option("--at", metavar="POSITION", default="@", help="As it would be sent at this position or time.")
@takes_api
@click.option("--policy", metavar="POLICY", help="Under this policy: full, last:50+tokens:16k, JSON.")
@click.option("--budget", metavar="N", help="Within a budget of so many tokens: 16k.")
@click.option("--without", multiple=True, metavar="P[-Q]", help="Without these positions: 91 or 40-44,91.")
@click.option("--why", is_flag=True, help="The reason for every part of it.")
@click.option(
    "--message", metavar="N", type=click.IntRange(min=0), help="The reason for this one; 0: around them."
)
@click.option("--dropped", is_flag=True, help="What was left out of it, and why.")
@click.option("--diff", "before", metavar="POSITION", help="What has changed since this position.")
@click.option("--other", metavar="NAME", help="What differs from the request of this agent.")
@click.option("--exit-code", is_flag=True, help="Exit 1 where there is a difference.")
@click.option("--raw", is_flag=True, help="The body alone: the exact bytes that would be sent.")
@takes_conversation
def request_command(
    db: Path,
    target: str,
    agent: str | None,
    at: str,
    api: str | None,
    policy: str | None,
    budget: str | None,
    without: tuple[str, ...],
    why: bool,
    message: int | None,
    dropped: bool,
    before: str | None,
    other: str | None,
    exit_code: bool,
    raw: bool,
) -> CommandResult | None:
    """Show what an agent's model is sent next.

    With --policy, --budget or --without it is the request as it might be, beside the real one.
    """
    differs, reasons = bool(before or other), why or message is not None
    if sum((reasons, dropped, differs, raw)) > 1:
        raise click.UsageError("--why, --dropped, --diff and --raw are different views: choose one")
    if without and (reasons or dropped or differs):
        raise click.UsageError("--without is shown beside the real request, or with --raw alone")
    conversation = find_conversation(open_log(db), target)
    position = resolve(conversation, at)
    named = agent or only_agent(conversation, position)
    chosen = _policy(conversation, named, position, policy, budget)
    asked = Asked(conversation, named, position, api, chosen, [*position_ranges(conversation, without)])
    warnings = slip(conversation, named)
    if raw:
        print_raw(asked.request())
        say_on_stderr((*warnings, *unrecorded(conversation, named)))
        return None
    if reasons:
        shown = _reasons(asked, message)
    elif dropped:
        shown = _dropped(asked)
    elif differs:
        shown = _difference(asked, before, address(other, "--other"), exit_code=exit_code)
    else:
        shown = _whatif(asked, exit_code=exit_code) if asked.is_changed else _real(asked)
    has_note = reasons or not (dropped or differs or asked.is_changed)
    notes = () if has_note else unrecorded(conversation, named)
    return shown._replace(diagnostics=(*warnings, *notes))


def _policy(
    conversation: Conversation, agent: str, position: int, written: str | None, tokens: str | None
) -> Policy | None:
    """Return the policy that was asked for; None for the agent's own."""
    from stenolog.projections.analysis.budget import with_tokens

    chosen = policy_of(written)
    if tokens is None:
        return chosen
    own = on_card(conversation, agent, position) if chosen is None else chosen
    return with_tokens(own, amount(tokens, "--budget"))


def on_card(conversation: Conversation, address: str, position: int) -> Policy:
    """Return the policy on the agent's card at a position."""
    return policy(conversation.settings(at=position).card_of(lane(address).agent).policy)


def _real(asked: Asked) -> CommandResult:
    """Show the request with its parts, and the bill beside it."""
    request = asked.request()
    entries = list(asked.conversation.entries())
    billed = bill_of(asked.conversation, request, entries)

    def draw() -> Iterable[Piece]:
        from .render_views import drawn_request

        return drawn_request(request, entries, billed)

    return CommandResult({**request_data(request), "bill": bill_data(billed)}, draw)


def bill_data(billed: Bill) -> dict[str, Any] | None:
    """Return a bill as JSON; None if there is none, and nobody else sent the request."""
    if billed == NO_BILL:
        return None
    return {**billed._asdict(), "missing": billed.missing, "note": billed.note}


def _reasons(asked: Asked, message: int | None) -> CommandResult:
    """Show the reason for every part, or for those of one message."""
    from stenolog.projections.analysis.explain import left_out, why

    request = asked.request()
    log = list(asked.conversation.entries(at=asked.at))
    reasons = [one for one in why(request, log) if message in (None, one.message + 1)]
    if not reasons:
        last = max(part.message for part in request.parts) + 1
        raise InvalidEventError(
            f"the request has messages 1 to {last}: expected one of them, found {message}"
        )

    def draw() -> Iterable[Piece]:
        from .render_explain import reasons_drawn

        return reasons_drawn(request, reasons, billed, whole=message is not None)

    billed = bill_of(asked.conversation, request, list(asked.conversation.entries()))
    data = {**request_reference(request), "reasons": reasons, "left_out": left_out(request, log)}
    return CommandResult(data, draw)


def _dropped(asked: Asked) -> CommandResult:
    """Show what was left out."""
    from stenolog.projections.analysis.budget_room import budget_room
    from stenolog.projections.analysis.explain import left_out

    request, log = asked.request(), list(asked.conversation.entries(at=asked.at))
    gone, rooms = left_out(request, log), budget_room(request, log, **means(asked.conversation))

    def draw() -> Iterable[Piece]:
        from .render_explain import left_out_drawn

        return left_out_drawn(request, gone, rooms)

    data = {**request_reference(request), "reasons": [], "left_out": gone, "budget": rooms}
    return CommandResult(data, draw)


def _difference(asked: Asked, before: str | None, other: str | None, *, exit_code: bool) -> CommandResult:
    """Show what differs from the request at another position, or of another agent."""
    from stenolog.projections.requests.comparison import diff

    conversation = asked.conversation
    at = asked.at if before is None else resolve(conversation, before)
    then = request_of(conversation, other or asked.agent, at, asked.api, asked.policy)
    now = asked.request()
    told = diff(then, now)

    def draw() -> Iterable[Piece]:
        from .render_explain import difference_drawn

        return difference_drawn(told, then, now)

    data = {"before": request_reference(then), "after": request_reference(now), **told._asdict()}
    return CommandResult(data, draw, failed=exit_code and not told.equal)


def _whatif(asked: Asked, *, exit_code: bool) -> CommandResult:
    """Show the request as it might be, beside the real one."""
    made = asked.whatif()

    def draw() -> Iterable[Piece]:
        from .render_policy import whatif_drawn

        return whatif_drawn(made)

    data = {
        "conversation": asked.conversation.name,
        "agent": asked.agent,
        "same": made.same,
        "difference": made.difference,
        "real": request_data(made.real),
        "other": request_data(made.other),
    }
    return CommandResult(data, draw, failed=exit_code and not made.same)
