"""`replay`, `verify`, `fsck`: what can be proved about a log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from stenolog.domain.state import State
from stenolog.domain.step import INITIAL, Transition, step
from stenolog.projections.requests.prefixes import Invalid, invalid_requests

from .answer import Answer, Diagnostic
from .screen import progress
from .shell import chosen, command, found, opened, takes_conversation
from .views import step_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stenolog.adapters.conversation import Conversation


class Replay(NamedTuple):
    """A fold from zero: every transition, the state it led to, and whether the log says the same."""

    conversation: str
    transitions: tuple[Transition, ...]
    state: State
    digest: str
    equal: bool


def replayed(talk: Conversation) -> Replay:
    """Fold the conversation from its first entry, and compare with the state that the log gives."""
    state: State = INITIAL
    made: list[Transition] = []
    for entry in progress(talk.entries(), f"replaying {talk.name}", talk.position):
        state, transitions = step(state, entry)
        made += transitions
    return Replay(talk.name, tuple(made), state, talk.digest, state == talk.state(upto=state.position))


@command("replay")
@takes_conversation
def replay_command(db: Path, conversation: str) -> Answer:
    """Fold the log from zero, show each transition with its decision, and compare with the kept state."""
    replay = replayed(found(opened(db), conversation))
    return Answer(replay, lambda: replay_lines(replay), failed=not replay.equal)


def replay_lines(replay: Replay) -> Iterator[RenderableType]:
    """The transitions, and what they prove."""
    from .drawing import line

    yield from step_lines(replay.transitions)
    state = replay.state
    mark = ("✓ ", "green") if replay.equal else ("✗ ", "red")
    same = (
        "the state is the one that the log keeps"
        if replay.equal
        else "the state that the log keeps is another"
    )
    odd = f", {state.anomalies} anomalies" if state.anomalies else ""
    yield line(
        mark, f"{state.position} entries, {len(replay.transitions)} transitions{odd}: {same}",
        (f"  {replay.digest[:12]}…", "dim"),
    )  # fmt: skip


@command("fsck")
@click.option("--all-prefixes", is_flag=True, help="At every position, and not at the last one alone.")
@takes_conversation
def fsck_command(db: Path, conversation: str, all_prefixes: bool) -> Answer:
    """Build every agent's request on every wire, and name each law of its provider that one breaks."""
    talks = chosen(opened(db), conversation)
    broken = {
        talk.name: list(
            invalid_requests(
                progress(talk.entries(), f"checking {talk.name}", talk.position),
                all_prefixes=all_prefixes,
                blobs=talk.log.blobs,
            )
        )
        for talk in talks
    }
    notes = tuple(_breach(name, invalid) for name, found in broken.items() for invalid in found)
    data = {"conversations": list(broken), "all_prefixes": all_prefixes, "invalid": len(notes)}
    return Answer(data, lambda: _fsck_lines(broken), failed=bool(notes), diagnostics=notes)


def _breach(conversation: str, invalid: Invalid) -> Diagnostic:
    law = invalid.breach
    message = (
        f"{conversation!r} at {invalid.position}: the request of {invalid.lane} on {invalid.wire} "
        f"breaks {law.law} at {law.pointer}: {law.found}"
    )
    return Diagnostic("error", law.law, message, conversation, invalid.position, law.pointer)


def _fsck_lines(broken: dict[str, list[Invalid]]) -> Iterator[RenderableType]:
    from .drawing import line

    for name, invalid in broken.items():
        mark = ("✗ ", "red") if invalid else ("✓ ", "green")
        yield line(mark, f"{name}: {len(invalid)} invalid requests")
