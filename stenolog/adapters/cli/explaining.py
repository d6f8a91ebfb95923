"""`explain`, `blame`, `why`, `diff`, `view`: from an entry to the requests it is in, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stenolog.domain.errors import InvalidEvent
from stenolog.projections.requests import DEFAULT_WIRE, WIRES, Request

from .answer import Answer
from .lines import Piece
from .policies import policy_of
from .positions import resolve
from .shell import command, found, names, opened, takes_conversation, takes_db
from .views import LANE, lane, lane_of, only_agent, request_of, takes_agent

if TYPE_CHECKING:
    from stenolog.adapters.conversation import Conversation

F = TypeVar("F", bound=Callable[..., Any])


def takes_conditions(function: F) -> F:
    """The options `--wire` and `--policy`: under which conditions requests are built."""
    wire = click.option(
        "--wire", type=click.Choice([*WIRES]), default=DEFAULT_WIRE, show_default=True, help="The provider."
    )
    written = click.option("--policy", help="Such as last:50+tokens:16k, or JSON; else the agent's own.")
    return wire(written(function))


@command("explain")
@click.argument("conversation", shell_complete=names)
@click.argument("position")
@click.option("--at", default="@", help="Up to this position or time.")
@takes_conditions
@takes_db
def explain_command(
    db: Path, conversation: str, position: str, at: str, wire: str, policy: str | None
) -> Answer:
    """Show where an entry went. Into whose requests, when, in which form; what it led to."""
    from stenolog.projections.analysis.explain import explain

    talk = found(opened(db), conversation)
    log = list(talk.entries(upto=resolve(talk, at)))
    told = explain(log, resolve(talk, position), wire=wire, policy=policy_of(policy), **_means(talk))
    data = {"conversation": talk.name, "upto": len(log), **told._asdict()}

    def draw() -> Iterable[Piece]:
        from .draw_explaining import explanation_drawn

        return explanation_drawn(told, log)

    return Answer(data, draw)


@command("blame")
@click.argument("conversation", shell_complete=names)
@click.argument("position", metavar="POSITION[/CALL]")
@takes_db
def blame_command(db: Path, conversation: str, position: str) -> Answer:
    """Show who told it to do that. From a call (57, or its second: 57/2) back to the words of a person."""
    from stenolog.projections.analysis.blame import blame

    talk = found(opened(db), conversation)
    where, nth = _call(position)
    told = blame(talk.entries(), resolve(talk, where), nth)

    def draw() -> Iterable[Piece]:
        from .draw_explaining import blame_drawn

        return blame_drawn(told)

    return Answer({"conversation": talk.name, **told._asdict()}, draw)


@command("why")
@takes_agent
@click.option("--at", default="@", help="The request at this position or time.")
@click.option("--message", type=click.IntRange(min=0), help="Only this one, as numbered; 0: around them.")
@click.option("--dropped", is_flag=True, help="Only what was left out.")
@takes_conditions
@takes_conversation
def why_command(
    db: Path,
    conversation: str,
    agent: str | None,
    at: str,
    message: int | None,
    dropped: bool,
    wire: str,
    policy: str | None,
) -> Answer:
    """Show the reason for every part of a request. And for everything that was left out of it."""
    from stenolog.projections.analysis.why import left_out, why

    if dropped and message is not None:
        raise click.UsageError("--message is about what is there, --dropped about what is not: choose one")
    talk = found(opened(db), conversation)
    upto = resolve(talk, at)
    request = request_of(talk, agent or only_agent(talk, upto), upto, wire, policy_of(policy))
    log = list(talk.entries(upto=upto))
    reasons = [one for one in why(request, log) if message in (None, one.message + 1)]
    if not reasons:
        last = max(part.message for part in request.parts) + 1
        raise InvalidEvent(f"the request has messages 1 to {last}: expected one of them, found {message}")
    gone = left_out(request, log)
    data = {**_place(request), "reasons": [] if dropped else reasons, "left_out": gone}

    def draw() -> Iterable[Piece]:
        from .draw_explaining import left_out_drawn, reasons_drawn

        return (
            left_out_drawn(request, gone) if dropped else reasons_drawn(request, reasons, message is not None)
        )

    return Answer(data, draw)


@command("diff")
@click.argument("conversation", shell_complete=names)
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
    conversation: str,
    position: str,
    second: str | None,
    agent: str | None,
    other: str | None,
    other_policy: str | None,
    exit_code: bool,
    wire: str,
    policy: str | None,
) -> Answer:
    """Compare two requests. Of one agent at two positions, of two agents, or under two policies."""
    from stenolog.projections.analysis.diff import diff

    if second is None and other is None and other_policy is None:
        raise InvalidEvent("expected a second position, --other or --other-policy, to compare with")
    talk = found(opened(db), conversation)
    first_at = resolve(talk, position)
    second_at = first_at if second is None else resolve(talk, second)
    mine = agent or only_agent(talk, max(first_at, second_at))
    chosen, others = policy_of(policy), policy_of(other_policy, "--other-policy")
    before = request_of(talk, mine, first_at, wire, chosen)
    after = request_of(talk, lane_of(other) or mine, second_at, wire, others or chosen)
    told = diff(before, after)
    data = {"before": _place(before), "after": _place(after), **told._asdict()}

    def draw() -> Iterable[Piece]:
        from .draw_explaining import difference_drawn

        return difference_drawn(told, before, after)

    return Answer(data, draw, failed=exit_code and not told.equal)


@command("view")
@takes_agent
@click.option("--minus", required=True, help=f"Who has not seen it: {LANE}.")
@click.option("--at", default="@", help="As it stood at this position or time.")
@takes_conditions
@takes_conversation
def view_command(
    db: Path, conversation: str, agent: str | None, minus: str, at: str, wire: str, policy: str | None
) -> Answer:
    """Show what one agent has seen and another has not. And how that is known."""
    from stenolog.projections.analysis.view import view

    talk = found(opened(db), conversation)
    log = list(talk.entries(upto=resolve(talk, at)))
    agent, minus = agent or only_agent(talk, len(log)), lane_of(minus) or minus
    told = view(log, lane(agent), lane(minus), wire=wire, policy=policy_of(policy), **_means(talk))
    data = {"conversation": talk.name, "upto": len(log), "agent": agent, "minus": minus, "seen": told}

    def draw() -> Iterable[Piece]:
        from .draw_explaining import view_drawn

        return view_drawn(told, agent, minus, log)

    return Answer(data, draw)


def _means(talk: Conversation) -> dict[str, Any]:
    """What building requests of this conversation takes from the world: its blobs, and every counter."""
    from stenolog.adapters.counters import COUNTERS

    return {"blobs": talk.log.blobs, "counters": COUNTERS}


def _place(request: Request) -> dict[str, Any]:
    """Which request it is."""
    fields = ("agent", "task", "upto", "wire", "sendable", "reason", "sha256")
    return {**{name: getattr(request, name) for name in fields}, "policy": request.policy.json}


def _call(written: str) -> tuple[str, int | None]:
    """The position, and the index of the call from 0 where one was named: `57/2` is the second."""
    where, _, nth = written.rpartition("/")
    return (where, int(nth) - 1) if nth.isascii() and nth.isdigit() and where else (written, None)
