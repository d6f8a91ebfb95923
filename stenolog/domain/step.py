"""The pure step: a state and an entry give the next state, and what each lane did.

`step` is total. What the lifecycle does not list leaves the lane where it is, and is an anomaly that
names what was found: an old or foreign log never fails to replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from types import MappingProxyType
from typing import NamedTuple

from .entry import Entry
from .impulses import Impulse, following, take
from .lifecycle import Row, Status, Trigger, move
from .state import Decision, Lane, State, decision

INITIAL = State()
HOLDS: MappingProxyType[str, Callable[[Lane], bool]] = MappingProxyType(
    {
        "has_calls": lambda lane: bool(lane.calls),
        "awaits_approval": lambda lane: any(call.approval for call in lane.calls),
        "calls_open": lambda lane: bool(lane.calls),
        "will_retry": lambda lane: lane.retry_at is not None,
        "asked_since": lambda lane: lane.asked > lane.seen,
    }
)
"""What each guard asks of a lane that has already taken in what the entry brings."""


class Transition(NamedTuple):
    """What one entry did to one lane, and what the lane must do next.

    `guard` names the guards that let it through. An entry that moves no lane has one transition with
    an empty `lane`. `anomaly` says what was out of order, `reason` why the lane was given the turn.
    """

    position: int
    kind: str
    lane: str = ""
    source: Status | None = None
    trigger: Trigger | None = None
    guard: tuple[str, ...] = ()
    target: Status | None = None
    decision: Decision = Decision("wait")
    anomaly: str = ""
    reason: str = ""


class Step(NamedTuple):
    """The next state, and the transitions that led to it."""

    state: State
    transitions: tuple[Transition, ...]


class _Move(NamedTuple):
    """What the lifecycle said to an impulse: the lane before and after, and the row; None: not listed."""

    before: Lane
    after: Lane
    trigger: Trigger
    row: Row | None
    reason: str = ""


class _Advance(NamedTuple):
    """The state after an entry, the moves that led to it, and what is out of order in the entry itself."""

    state: State
    moves: Sequence[_Move]
    anomaly: str


def evolve(state: State, entry: Entry) -> State:
    """The state after the entry."""
    return _advance(state, entry).state


def fold(entries: Iterable[Entry], state: State = INITIAL) -> State:
    """The state after all the entries."""
    return reduce(evolve, entries, state)


def step(state: State, entry: Entry) -> Step:
    """The next state, and what each lane did on the way."""
    now, moves, anomaly = _advance(state, entry)
    quiet = Transition(entry.position, entry.event.kind, anomaly=anomaly)
    return Step(now, tuple(_transition(now, made, quiet) for made in moves) or (quiet,))


def _advance(state: State, entry: Entry) -> _Advance:
    taken, impulses, anomaly = take(state, entry)
    now, moves = _moved(taken, impulses)
    if now.floor.holds or now.waiting:
        passed, asked, _ = following(now, entry)
        now, more = _moved(passed, asked)
        moves += more
    odd = bool(anomaly) or any(made.row is None for made in moves)
    return _Advance(now._replace(position=entry.position, anomalies=state.anomalies + odd), moves, anomaly)


def _moved(state: State, impulses: Sequence[Impulse]) -> tuple[State, list[_Move]]:
    """The state once the lifecycle has answered the impulses, and its answers."""
    if not impulses:
        return state, []
    moves = [_move(state, impulse) for impulse in impulses]
    lanes = {**state.lanes, **{made.after.address: made.after for made in moves}}
    return state._replace(lanes=lanes), moves


def _move(taken: State, impulse: Impulse) -> _Move:
    """The lane as the impulse leaves it; as it was where the lifecycle does not list that."""
    lane, trigger, reason = impulse
    moved = move(lane.status, trigger, lambda guard: HOLDS[guard](lane))
    if moved is None:
        before = taken.lane(lane.address)
        return _Move(before, before, trigger, None)
    row, target = moved
    after = lane if lane.status == target else lane._replace(status=target)
    return _Move(lane, after, trigger, row, reason)


def _transition(now: State, made: _Move, quiet: Transition) -> Transition:
    before, after, trigger, row, reason = made
    return Transition(
        position=quiet.position,
        kind=quiet.kind,
        lane=after.address,
        source=before.status,
        trigger=trigger,
        guard=tuple(name for name, _ in row.guards) if row else (),
        target=after.status,
        decision=decision(now, after),
        anomaly=quiet.anomaly if row else f"{trigger} is not listed for a lane that is {before.status}",
        reason=reason,
    )
