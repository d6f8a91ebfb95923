"""Command `state`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from stenolog.apps.cli.arguments.agent import known_agent, takes_agent_else
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import takes_at, takes_conversation
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.draw.entry_lines import carries_settings_of, not_shown
from stenolog.apps.cli.draw.step_lines import erased_among, step_lines
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, counted
from stenolog.apps.views.states import Standing, state_at, state_data
from stenolog.domain.events import ModeSwitch
from stenolog.domain.lanes.step import Transition
from stenolog.domain.lanes.turns import TURN_RULES

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation


SEES = {"addressed": "  each agent sees only its own messages"}
"""Words for a scope in which agents do not see everything."""


@command("state", example="stenolog state demo --steps --agent coder")
@takes_at
@click.option("--steps", is_flag=True, help="Each transition, with its entry.")
@takes_agent_else("with --steps. Default: all")
@takes_conversation
def state_command(db: Database, target: str, at: str, steps: bool, agent: str | None) -> CommandResult:
    """Show each agent's status, and the settings."""
    if agent and not steps:
        raise click.UsageError("--agent goes with --steps")
    conversation = find_conversation(open_log(db), target)
    position = resolve(conversation, at)
    if agent:
        known_agent(conversation, agent)
    if steps:
        moves = [step for step in conversation.transitions(at=position) if agent in (None, step.lane)]
        data = {"conversation": conversation.name, "transitions": moves}

        def draw() -> Iterator[Piece]:
            unseen = _settings_among(conversation, moves)
            shown = [step for step in moves if step.position not in unseen]
            yield from step_lines(shown, erased_among(conversation, shown))
            yield from not_shown(Counter(unseen.values()), "--json has them")

        return CommandResult(data, draw)
    found = state_at(conversation, position)
    return CommandResult(state_data(found), lambda: _state_lines(found))


def _settings_among(conversation: Conversation, steps: Iterable[Transition]) -> dict[int, str]:
    idle = {step.position for step in steps if not step.lane and step.kind == ModeSwitch.kind}
    if not idle:
        return {}
    entries = conversation.entries(after=min(idle) - 1, at=max(idle))
    owners = {entry.position: carries_settings_of(entry.event) for entry in entries if entry.position in idle}
    return {position: owner for position, owner in owners.items() if owner}


def _state_lines(found: Standing) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import table, wrapped

    state, settings = found.state, found.settings
    yield wrapped((f"at {state.position}", "bold"), f"  mode {settings.mode}", SEES.get(settings.scope, ""))
    if settings.title:
        yield wrapped(("title  ", "dim"), settings.title, hang=7)
    if settings.parent:
        yield wrapped(("from   ", "dim"), f"{settings.parent.conversation}@{settings.parent.position}")
    if state.blocked:
        yield wrapped((f"blocked at {state.blocked.position} by {state.blocked.topic}", "red"))
    if state.turns and state.turns.rule not in TURN_RULES:
        unknown = (
            f"turns by {state.turns.rule!r}, a rule that is not registered here: whose turn it is is unknown"
        )
        yield wrapped((unknown, "yellow"))
    if state.anomalies:
        yield wrapped(
            (f"{counted(state.anomalies, 'anomaly', 'anomalies')}: `stenolog check log` names them", "yellow")
        )
    if found.asks_person:
        yield wrapped(("waits for a person's answer", "yellow"))
    for waiting in found.waits:
        until = f"{waiting.until:%H:%M:%S} UTC" if waiting.until else "a person goes first"
        yield wrapped((f"{waiting.lane}: {waiting.why}  · next try: {until}", "yellow"))
    columns = ("AGENT", "STATUS", ">ASKED", ">ANSWERED", ">STEPS", ">ATTEMPT", "*OPEN CALLS")
    yield table(columns, [_lane_row(where, lane) for where, lane in state.lanes.items()])


def _lane_row(where: str, lane: Any) -> tuple[str | tuple[str, str], ...]:
    calls = ", ".join(
        f"{call.name}@{call.position}{f' asks at {call.question}' if call.question else ''}"
        for call in lane.calls
    )
    counts = (lane.asked, lane.answered, lane.steps, lane.attempt)
    return ((where, "cyan"), lane.status, *(str(count or "-") for count in counts), calls)
