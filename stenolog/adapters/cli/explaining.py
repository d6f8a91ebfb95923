"""`explain`, `blame`, `why`, `diff`, `view`: from an entry to the requests it is in, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stenolog.domain.errors import InvalidEvent
from stenolog.projections.requests import DEFAULT_WIRE, WIRES, Lane, Request

from .answer import Answer
from .lines import Piece
from .policies import policy_of
from .positions import resolve
from .shell import command, found, names, opened, takes_conversation, takes_db
from .views import only_agent

if TYPE_CHECKING:
    from stenolog.adapters.conversation import Conversation

F = TypeVar("F", bound=Callable[..., Any])
LANE = "agent, or agent/task"


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
    """Show where an entry went: into whose requests, when, in which form; what it led to."""
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
    """Show who told it to do that: from a call (57, or its second: 57/2) back to the words of a person."""
    from stenolog.projections.analysis.blame import blame

    talk = found(opened(db), conversation)
    where, nth = _call(position)
    told = blame(talk.entries(), resolve(talk, where), nth)

    def draw() -> Iterable[Piece]:
        from .draw_explaining import blame_drawn

        return blame_drawn(told)

    return Answer({"conversation": talk.name, **told._asdict()}, draw)


@command("why")
@click.option("--agent", help=f"The {LANE}; may be left out where there is one.")
@click.option("--task", default="", help="The agent's task.")
@click.option("--at", default="@", help="The request at this position or time.")
@click.option("--message", type=click.IntRange(min=0), help="Only this one, as numbered; 0: around them.")
@click.option("--dropped", is_flag=True, help="Only what was left out.")
@takes_conditions
@takes_conversation
def why_command(
    db: Path,
    conversation: str,
    agent: str | None,
    task: str,
    at: str,
    message: int | None,
    dropped: bool,
    wire: str,
    policy: str | None,
) -> Answer:
    """Show the reason for every message of a request, and for everything that was left out of it."""
    from stenolog.projections.analysis.why import left_out, why

    talk = found(opened(db), conversation)
    upto = resolve(talk, at)
    request = _request(talk, _lane(agent or only_agent(talk, upto), task), upto, wire, policy)
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
@click.option("--agent", help=f"The {LANE}; may be left out where there is one.")
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
    """Compare two requests: of one agent at two positions, of two agents, or under two policies."""
    from stenolog.projections.analysis.diff import diff

    if second is None and other is None and other_policy is None:
        raise InvalidEvent("expected a second position, --other or --other-policy, to compare with")
    talk = found(opened(db), conversation)
    first_at = resolve(talk, position)
    second_at = first_at if second is None else resolve(talk, second)
    lane = agent or only_agent(talk, max(first_at, second_at))
    before = _request(talk, _lane(lane), first_at, wire, policy)
    after = _request(talk, _lane(other or lane), second_at, wire, other_policy or policy)
    told = diff(before, after)
    data = {"before": _place(before), "after": _place(after), **told._asdict()}

    def draw() -> Iterable[Piece]:
        from .draw_explaining import difference_drawn

        return difference_drawn(told, before, after)

    return Answer(data, draw, failed=exit_code and not told.equal)


@command("view")
@click.option("--agent", required=True, help=f"Who has seen it: {LANE}.")
@click.option("--minus", required=True, help=f"Who has not: {LANE}.")
@click.option("--at", default="@", help="As it stood at this position or time.")
@takes_conditions
@takes_conversation
def view_command(
    db: Path, conversation: str, agent: str, minus: str, at: str, wire: str, policy: str | None
) -> Answer:
    """Show what one agent has seen, and how that is known, that another has not."""
    from stenolog.projections.analysis.view import view

    talk = found(opened(db), conversation)
    log = list(talk.entries(upto=resolve(talk, at)))
    told = view(log, _lane(agent), _lane(minus), wire=wire, policy=policy_of(policy), **_means(talk))
    data = {"conversation": talk.name, "upto": len(log), "agent": agent, "minus": minus, "seen": told}

    def draw() -> Iterable[Piece]:
        from .draw_explaining import view_drawn

        return view_drawn(told, agent, minus, log)

    return Answer(data, draw)


def _means(talk: Conversation) -> dict[str, Any]:
    """What building requests of this conversation takes from the world: its blobs, and every counter."""
    from stenolog.adapters.counters import COUNTERS

    return {"blobs": talk.log.blobs, "counters": COUNTERS}


def _lane(written: str, task: str = "") -> Lane:
    agent, _, own = written.partition("/")
    return Lane(agent, task or own)


def _request(talk: Conversation, lane: Lane, upto: int, wire: str, policy: str | None) -> Request:
    return talk.request(lane.agent, upto, wire, task=lane.task, policy=policy_of(policy))


def _place(request: Request) -> dict[str, Any]:
    """Which request it is."""
    fields = ("agent", "task", "upto", "wire", "sendable", "reason", "sha256")
    return {**{name: getattr(request, name) for name in fields}, "policy": request.policy.json}


def _call(written: str) -> tuple[str, int | None]:
    """The position, and the index of the call from 0 where one was named: `57/2` is the second."""
    where, _, nth = written.rpartition("/")
    return (where, int(nth) - 1) if nth.isascii() and nth.isdigit() and where else (written, None)
