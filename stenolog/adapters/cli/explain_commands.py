"""`explain`, `blame`, `why`, `diff`, `view`: from an entry to the requests it is in, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stenolog.domain.errors import InvalidEventError
from stenolog.domain.policy_text import policy_of
from stenolog.projections.requests import Request

from .framework import command
from .lines import CommandResult, Piece
from .lookup import find_conversation, open_log
from .options import names, takes_conversation, takes_db
from .position_argument import resolve
from .view_commands import LANE, lane, lane_of, only_agent, own_api, request_of, takes_agent, takes_api

if TYPE_CHECKING:
    from stenolog.adapters.log import Conversation
    from stenolog.domain.entry import Entry

F = TypeVar("F", bound=Callable[..., Any])


def takes_conditions(function: F) -> F:
    """Return the options `--api` and `--policy`: under which conditions requests are built."""
    written = click.option("--policy", help="Such as last:50+tokens:16k, or JSON; else the agent's own.")
    return takes_api(written(function))


@command("explain")
@click.argument("target", metavar="CONVERSATION", shell_complete=names)
@click.argument("position")
@click.option("--at", default="@", help="Up to this position or time.")
@click.option(
    "--bytes", "as_bytes", is_flag=True, help="Of an answer: the bytes it was asked by, part by part."
)
@takes_conditions
@takes_db
def explain_command(
    db: Path, target: str, position: str, at: str, as_bytes: bool, api: str | None, policy: str | None
) -> CommandResult:
    """Show where an entry went. Into whose requests, when, in which form; what it led to."""
    from stenolog.projections.analysis.explain import explain

    conversation = find_conversation(open_log(db), target)
    log = list(conversation.entries(at=resolve(conversation, at)))
    if as_bytes:
        return _bytes_of(conversation, log, resolve(conversation, position))
    told = explain(
        log, resolve(conversation, position), api=api, policy=policy_of(policy), **_means(conversation)
    )
    data = {"conversation": conversation.name, "at": len(log), **told._asdict()}

    def draw() -> Iterable[Piece]:
        from .render_explain import explanation_drawn

        return explanation_drawn(told, log)

    return CommandResult(data, draw)


def _bytes_of(conversation: Conversation, log: list[Entry], position: int) -> CommandResult:
    """Yield the byte ranges of the request that an answer answers."""
    from stenolog.projections.analysis.byte_ranges import byte_ranges, sent_request

    request, transport = sent_request(log, position, **_means(conversation))
    found = byte_ranges(request, transport)
    data = {"conversation": conversation.name, "position": position, "bytes": found}

    def draw() -> Iterable[Piece]:
        for one in found:
            yield f"{one.first:>9,} {one.end - one.first:>9,}  {one.pointer or '/'}  {one.source}"

    return CommandResult(data, draw)


@command("blame")
@click.argument("target", metavar="CONVERSATION", shell_complete=names)
@click.argument("position", metavar="POSITION[/CALL]")
@takes_db
def blame_command(db: Path, target: str, position: str) -> CommandResult:
    """Show who told it to do that. From a call (57, or its second: 57/2) back to the words of a person."""
    from stenolog.projections.analysis.blame import blame

    conversation = find_conversation(open_log(db), target)
    where, nth = _call(position)
    told = blame(conversation.entries(), resolve(conversation, where), nth)

    def draw() -> Iterable[Piece]:
        from .render_explain import blame_drawn

        return blame_drawn(told)

    return CommandResult({"conversation": conversation.name, **told._asdict()}, draw)


@command("why")
@takes_agent
@click.option("--at", default="@", help="The request at this position or time.")
@click.option("--message", type=click.IntRange(min=0), help="Only this one, as numbered; 0: around them.")
@click.option("--dropped", is_flag=True, help="Only what was left out.")
@takes_conditions
@takes_conversation
def why_command(
    db: Path,
    target: str,
    agent: str | None,
    at: str,
    message: int | None,
    dropped: bool,
    api: str | None,
    policy: str | None,
) -> CommandResult:
    """Show the reason for every part of a request. And for everything that was left out of it."""
    from stenolog.projections.analysis.explain import left_out, why

    if dropped and message is not None:
        raise click.UsageError("--message is about what is there, --dropped about what is not: choose one")
    conversation = find_conversation(open_log(db), target)
    position = resolve(conversation, at)
    request = request_of(
        conversation, agent or only_agent(conversation, position), position, api, policy_of(policy)
    )
    log = list(conversation.entries(at=position))
    reasons = [one for one in why(request, log) if message in (None, one.message + 1)]
    if not reasons:
        last = max(part.message for part in request.parts) + 1
        raise InvalidEventError(
            f"the request has messages 1 to {last}: expected one of them, found {message}"
        )
    gone = left_out(request, log)
    data = {**_request_reference(request), "reasons": [] if dropped else reasons, "left_out": gone}

    def draw() -> Iterable[Piece]:
        from .render_explain import left_out_drawn, reasons_drawn

        return (
            left_out_drawn(request, gone) if dropped else reasons_drawn(request, reasons, message is not None)
        )

    return CommandResult(data, draw)


@command("diff")
@click.argument("target", metavar="CONVERSATION", shell_complete=names)
@click.argument("position")
@click.argument("second", required=False)
@takes_agent
@click.option("--other", help=f"Another {LANE}, whose request is the second.")
@click.option("--other-policy", help="The policy of the second request.")
@click.option("--exit-code", is_flag=True, help="Exit 1 where the two differ.")
@takes_conditions
@takes_db
def diff_command(
    db: Path,
    target: str,
    position: str,
    second: str | None,
    agent: str | None,
    other: str | None,
    other_policy: str | None,
    exit_code: bool,
    api: str | None,
    policy: str | None,
) -> CommandResult:
    """Compare two requests. Of one agent at two positions, of two agents, or under two policies."""
    from stenolog.projections.requests.comparison import diff

    if second is None and other is None and other_policy is None:
        raise InvalidEventError("expected a second position, --other or --other-policy, to compare with")
    conversation = find_conversation(open_log(db), target)
    first_at = resolve(conversation, position)
    second_at = first_at if second is None else resolve(conversation, second)
    mine = agent or only_agent(conversation, max(first_at, second_at))
    chosen, others = policy_of(policy), policy_of(other_policy, "--other-policy")
    before = request_of(conversation, mine, first_at, api, chosen)
    after = request_of(conversation, lane_of(other) or mine, second_at, api, others or chosen)
    told = diff(before, after)
    data = {"before": _request_reference(before), "after": _request_reference(after), **told._asdict()}

    def draw() -> Iterable[Piece]:
        from .render_explain import difference_drawn

        return difference_drawn(told, before, after)

    return CommandResult(data, draw, failed=exit_code and not told.equal)


@command("view")
@takes_agent
@click.option("--minus", required=True, help=f"Who has not seen it: {LANE}.")
@click.option("--at", default="@", help="As it stood at this position or time.")
@takes_conditions
@takes_conversation
def view_command(
    db: Path, target: str, agent: str | None, minus: str, at: str, api: str | None, policy: str | None
) -> CommandResult:
    """Show what one agent has seen and another has not. And how that is known."""
    from stenolog.projections.analysis.knowledge import view

    conversation = find_conversation(open_log(db), target)
    log = list(conversation.entries(at=resolve(conversation, at)))
    agent, minus = agent or only_agent(conversation, len(log)), lane_of(minus) or minus
    api = api or own_api(conversation, agent)
    told = view(log, lane(agent), lane(minus), api=api, policy=policy_of(policy), **_means(conversation))
    data = {"conversation": conversation.name, "at": len(log), "agent": agent, "minus": minus, "seen": told}

    def draw() -> Iterable[Piece]:
        from .render_explain import view_drawn

        return view_drawn(told, agent, minus, log)

    return CommandResult(data, draw)


def _means(conversation: Conversation) -> dict[str, Any]:
    """Return the external inputs to this conversation's requests: its blobs, and every counter."""
    from stenolog.adapters.queries.token_counters import COUNTERS

    return {"blobs": conversation.log.blobs, "counters": COUNTERS}


def _request_reference(request: Request) -> dict[str, Any]:
    """Return the fields that identify a request."""
    fields = ("agent", "task", "at", "api", "sendable", "reason", "sha256")
    return {**{name: getattr(request, name) for name in fields}, "policy": request.policy.json}


def _call(written: str) -> tuple[str, int | None]:
    """Return the position, and the index of the call from 0 where one was named: `57/2` is the second."""
    where, _, nth = written.rpartition("/")
    return (where, int(nth) - 1) if nth.isascii() and nth.isdigit() and where else (written, None)
