"""Command `check replay`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import click

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import takes_conversation
from stenolog.apps.cli.draw.step_lines import erased_among, step_lines
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, line
from stenolog.apps.cli.terminal import progress
from stenolog.domain.lanes.state import State
from stenolog.domain.lanes.step import INITIAL, Transition, step

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation


class Replay(NamedTuple):
    """A fold from zero: every transition, the final state, and whether the log agrees."""

    conversation: str
    transitions: tuple[Transition, ...]
    state: State
    digest: str
    equal: bool


def replayed(conversation: Conversation) -> Replay:
    """Fold the conversation from its first entry, and compare the states."""
    state: State = INITIAL
    steps: list[Transition] = []
    for entry in progress(conversation.entries(), f"replaying {conversation.name}", conversation.position):
        state, transitions = step(state, entry)
        steps += transitions
    return Replay(
        conversation.name,
        tuple(steps),
        state,
        conversation.digest,
        state == conversation.state(at=state.position),
    )


@command("replay", example="stenolog check replay demo")
@click.option("-v", "--verbose", is_flag=True, help="List each step of each agent.")
@takes_conversation
def check_replay_command(db: Database, target: str, verbose: bool) -> CommandResult:
    """Fold the log from zero, and compare with the kept state."""
    conversation = find_conversation(open_log(db), target)
    replay = replayed(conversation)

    def draw() -> Iterator[Piece]:
        if verbose or not replay.equal:
            yield from step_lines(replay.transitions, erased_among(conversation, replay.transitions))
        yield comparison(replay)

    return CommandResult(replay, draw, failed=not replay.equal)


def comparison(replay: Replay) -> Piece:
    """Return one line: whether the state is the kept one."""
    state = replay.state
    mark = ("✓ ", "green") if replay.equal else ("✗ ", "red")
    same = (
        "the state is the one that the log keeps"
        if replay.equal
        else "the state that the log keeps is another"
    )
    odd = f", {state.anomalies} anomalies" if state.anomalies else ""
    return line(
        mark, f"{state.position} entries, {len(replay.transitions)} transitions{odd}: {same}",
        (f"  {replay.digest[:12]}…", "dim"),
    )  # fmt: skip
