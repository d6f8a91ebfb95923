"""`timeline`, `request`, `steps`, `state`: what follows from the log."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from stenolog.adapters.queries.bills import bill_of
from stenolog.domain.errors import InvalidEventError
from stenolog.domain.policy import Policy
from stenolog.domain.policy_text import policy_of
from stenolog.domain.state import State
from stenolog.domain.step import Transition
from stenolog.domain.turns import TURN_RULES
from stenolog.projections.analysis.provider_bill import NO_BILL, Bill, usual_api
from stenolog.projections.requests import APIS, LaneId, Request, lanes

from .framework import command
from .lines import CommandResult, Piece, counted, line, pass_token
from .lookup import find_conversation, open_log
from .options import RegisteredName, takes_conversation
from .position_argument import resolve

if TYPE_CHECKING:
    from stenolog.adapters.log import Conversation

F = TypeVar("F", bound=Callable[..., Any])
LANE = "agent, or agent/task"
STEP = 12
"""The cells that names of agents and tools keep."""
DECISIONS = {
    "call_model": "cyan",
    "run_tools": "blue",
    "ask_approval": "yellow",
    "wait": "dim",
    "stop": "red",
}


def takes_agent_else(otherwise: str) -> Callable[[F], F]:
    """Return the options `--agent` and `--task`, handed on as one `agent`: `agent/task`, or None."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def called(agent: str | None, task: str | None, **given: Any) -> Any:
            return function(agent=lane_of(agent, task), **given)

        named = click.option("--agent", help=f"The {LANE}; {otherwise}.")
        return cast("F", named(click.option("--task", help="The agent's task.")(called)))

    return decorate


takes_agent = takes_agent_else("may be left out where there is one")


def takes_api(function: F) -> F:
    """Add the option `--api`."""
    of_their_own = "The API of the body; else the one that the agent's answers came by."
    return click.option("--api", type=RegisteredName(APIS), help=of_their_own)(function)


def lane_of(agent: str | None, task: str | None = None) -> str | None:
    """Return the lane that two options name, as `agent` or `agent/task`."""
    if agent == "" or task == "":
        raise click.UsageError(f"--agent, --task: expected an {LANE}, found an empty name")
    if task is None:
        return agent
    if agent is None or "/" in agent:
        raise click.UsageError(f"--task goes with --agent, and names the task of an agent once: {LANE}")
    return f"{agent}/{task}"


def lane(written: str) -> LaneId:
    """Return the lane of an address: `agent` or `agent/task`."""
    agent, _, task = written.partition("/")
    return LaneId(agent, task)


@command("timeline")
@click.option("--at", default="@", help="As it stood at this position or time.")
@takes_conversation
def timeline_command(db: Path, target: str, at: str) -> CommandResult:
    """Show what a person sees. Messages, tools with their results, errors, mode changes, cuts."""
    conversation = find_conversation(open_log(db), target)
    position = resolve(conversation, at)
    items = conversation.timeline(at=position)

    def draw() -> Iterable[Piece]:
        from .render_views import drawn_timeline

        return drawn_timeline(items, pass_token(conversation.settings(position).turns))

    return CommandResult({"conversation": conversation.name, "items": items}, draw)


@command("request")
@takes_agent
@click.option("--at", default="@", help="As it would be sent at this position or time.")
@takes_api
@click.option("--policy", help="Another context policy than the card's: last:50+tokens:16k, or JSON.")
@click.option("--raw", is_flag=True, help="Only the body: the exact bytes that would be sent.")
@takes_conversation
def request_command(
    db: Path, target: str, agent: str | None, at: str, api: str | None, policy: str | None, raw: bool
) -> CommandResult | None:
    """Show what an agent's model is sent next. With the reason for every part."""
    conversation = find_conversation(open_log(db), target)
    position = resolve(conversation, at)
    request = request_of(
        conversation, agent or only_agent(conversation, position), position, api, policy_of(policy)
    )
    if raw:
        print_raw(request)
        return None

    def draw() -> Iterable[Piece]:
        from .render_views import drawn_request

        return drawn_request(request, entries, billed)

    entries = list(conversation.entries())
    billed = bill_of(conversation, request, entries)
    return CommandResult({**request_data(request), "bill": bill_data(billed)}, draw)


def request_of(
    conversation: Conversation, address: str, position: int, api: str | None, policy: Policy | None = None
) -> Request:
    """Return the request of a lane, written as agent or agent/task."""
    agent, task = lane(address)
    chosen = api or own_api(conversation, address)
    return conversation.request(agent, position, chosen, task=task, policy=policy)


def own_api(conversation: Conversation, address: str) -> str:
    """Return the API that the agent's answers came by, wherever they stand in the log."""
    return usual_api(conversation.entries(), lane(address))


def bill_data(billed: Bill) -> dict[str, Any] | None:
    """Return a bill as JSON; None if there is none, and nobody else sent the request."""
    return {**billed._asdict(), "missing": billed.missing} if billed != NO_BILL else None


def only_agent(conversation: Conversation, position: int) -> str:
    """Return the one agent there is. Raises `InvalidEventError` where there are none or several."""
    there = [each.address for each in lanes(conversation.entries(at=position))]
    there = there or [each.address for each in lanes(conversation.entries())]  # it answers later
    if len(there) == 1:
        return there[0]
    known = ", ".join(there) or "none has spoken yet"
    raise InvalidEventError(f"{conversation.name!r} at {position}: expected --agent, one of: {known}")


def request_data(request: Request) -> dict[str, Any]:
    """Return a request as JSON: the body, its digest, and the explanation."""
    fields = ("agent", "task", "at", "api", "sendable", "reason", "sha256", "pipeline", "counter", "cuts")
    shown = {name: getattr(request, name) for name in fields}
    shown |= {"policy": request.policy.json, "size": request.size._asdict()}
    return {**shown, "parts": request.parts, "omissions": request.omissions, "body": request.body}


def print_raw(request: Request) -> None:
    """Print the exact bytes of the body into a pipe; on a terminal, the same JSON made safe for it."""
    from stenolog.projections.terminal_text import safe_json

    if sys.stdout.isatty():
        click.echo(safe_json(request.body))
    else:
        click.echo(request.bytes, nl=False)


@command("steps")
@takes_agent_else("else all of them")
@click.option("--at", default="@", help="Up to this position or time.")
@takes_conversation
def steps_command(db: Path, target: str, agent: str | None, at: str) -> CommandResult:
    """Show the engine's transitions. What each entry did, and what had to be done next."""
    conversation = find_conversation(open_log(db), target)
    made = [
        step for step in conversation.transitions(at=resolve(conversation, at)) if agent in (None, step.lane)
    ]
    return CommandResult({"conversation": conversation.name, "transitions": made}, lambda: step_lines(made))


def step_lines(steps: Iterable[Transition]) -> Iterator[Piece]:
    """Yield a table with one row for each transition."""
    from .layout import table

    columns = (">ENTRY", "~AGENT", "TRIGGER", "~NEXT", "THEN", "*NOTE")
    rows = [_step_row(step) for step in steps]
    kept = range(len(columns) if any(row[-1][0] for row in rows) else len(columns) - 1)
    yield table([columns[at] for at in kept], [[row[at] for at in kept] for row in rows], names=STEP)


def _step_row(step: Transition) -> tuple[tuple[str, str], ...]:
    guard = f" [{', '.join(step.guard)}]" if step.guard else ""
    return (
        (str(step.position), "bold"),
        (step.lane, "cyan"),
        ((step.trigger or "") + guard, ""),
        (decision_words(step) if step.lane else "", DECISIONS[step.decision.do]),
        ((step.target or "") if step.lane else step.kind, "dim"),
        (f"! {step.anomaly}" if step.anomaly else "", "yellow"),
    )


def decision_words(step: Transition) -> str:
    """Describe the lane's next step in words."""
    decision = step.decision
    tools = ", ".join(call.name for call in decision.calls)
    about = tools or decision.reason or (f"for {decision.cause}" if decision.do == "call_model" else "")
    again = f", attempt {decision.attempt}" if decision.do == "call_model" and decision.attempt > 1 else ""
    return f"{decision.do}{' ' + about if about else ''}{again}"


@command("state")
@click.option("--at", default="@", help="As it stood at this position or time.")
@takes_conversation
def state_command(db: Path, target: str, at: str) -> CommandResult:
    """Show where every lane stands, and what is configured."""
    conversation = find_conversation(open_log(db), target)
    position = resolve(conversation, at)
    state, settings = conversation.state(at=position), conversation.settings(at=position)
    data = {"conversation": conversation.name, "state": state, "settings": settings}
    return CommandResult(data, lambda: _state_lines(state, settings))


def _state_lines(state: State, settings: Any) -> Iterator[Piece]:
    from .layout import table

    yield line((f"at {state.position}", "bold"), f"  mode {settings.mode}  scope {settings.scope}")
    if settings.title:
        yield line(("title  ", "dim"), settings.title)
    if settings.parent:
        yield line(("from   ", "dim"), f"{settings.parent.conversation}@{settings.parent.position}")
    if state.blocked:
        yield line((f"blocked at {state.blocked.position} by {state.blocked.topic}", "red"))
    if state.turns and state.turns.rule not in TURN_RULES:
        told = (
            f"turns by {state.turns.rule!r}, a rule that is not registered here: whose turn it is is unknown"
        )
        yield line((told, "yellow"))
    if state.anomalies:
        yield line(
            (f"{counted(state.anomalies, 'anomaly', 'anomalies')}: `stenolog verify` names them", "yellow")
        )
    columns = ("LANE", "STATUS", ">ASKED", ">ANSWERED", ">STEPS", ">ATTEMPT", "*OPEN CALLS")
    yield table(columns, [_lane_row(where, lane) for where, lane in state.lanes.items()])


def _lane_row(where: str, lane: Any) -> tuple[str | tuple[str, str], ...]:
    calls = ", ".join(f"{call.name}@{call.position}" for call in lane.calls)
    counts = (lane.asked, lane.answered, lane.steps, lane.attempt)
    return ((where, "cyan"), lane.status, *(str(count or "-") for count in counts), calls)
