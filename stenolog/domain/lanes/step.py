"""The pure step: a state and an entry give the next state, and what each lane did.

The state of a conversation is a fold: `evolve(state, entry)` for each entry, from `INITIAL`. The same entries
give the same state in any process, so one that starts after a crash knows what the dead one knew. `step` is
`evolve` with its reasons: it also returns a `Transition` for each lane that moved.

`_advance` takes one entry in:

1. `triggers.interpret` translates the entry. It changes members, summaries, the turn order, and returns a
   `LaneTrigger` for each lane concerned: the lane with its new fields and its old status.
2. `_moved` gives each trigger to the lifecycle. The table decides the new status; its guards, in `HOLDS`,
   look at the new fields.
3. The lanes that had the turn may have answered, failed or left, or an agent joined that a message waited
   for. Then `triggers.following` says which lanes are asked next. They are moved as in 2.
4. The position advances. If anything was out of order, `anomalies` grows by one.

`step` is total: an entry of the log has happened, so a fold cannot refuse it. The lane stays, and the
transition names the anomaly. `decide` refuses, before an append. What it has accepted is never an anomaly
here; the tests compare the two on random conversations.

A lane's next action is not stored. `state.decision` derives it, and `effects` turns it into work.

A state holds counters and references, never text, so it stays small. Its tuples are replaced and never
changed, so a caller may keep an earlier state, and states share unchanged lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import NamedTuple

from stenolog.domain.base.model import FrozenDict
from stenolog.domain.entry import Entry

from .lifecycle import Row, Status, Trigger, move
from .state import Decision, LaneState, State, decision
from .triggers import LaneTrigger, following, interpret
from .turn_taking import resting

INITIAL = State()
# The lane has already been updated with the entry, so a guard may ask what is left of its calls.
HOLDS: MappingProxyType[str, Callable[[LaneState], bool]] = MappingProxyType(
    {
        "has_calls": lambda lane: bool(lane.calls),
        "awaits_approval": lambda lane: True in [call.approval or call.question > 0 for call in lane.calls],
        "calls_open": lambda lane: bool(lane.calls),
        "has_ended": lambda lane: lane.has_ended,
        "will_retry": lambda lane: lane.retry_at is not None,
        "asked_since": lambda lane: lane.asked > lane.seen,
    }
)
"""The test of each guard's name."""


class Transition(NamedTuple):
    """One entry's effect on one lane, and the lane's next action.

    `guard` names the guards that passed. An entry that moves no lane has one transition with an empty `lane`.
    `anomaly` says what was out of order, `reason` why the lane was given the turn.
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


class StepResult(NamedTuple):
    """The next state, and the transitions that led to it."""

    state: State
    transitions: tuple[Transition, ...]


class _Move(NamedTuple):
    """The lifecycle's response to an impulse: the lane before and after, and the row (None: not listed)."""

    source: Status
    after: LaneState
    trigger: Trigger
    row: Row | None
    reason: str = ""


def evolve(state: State, entry: Entry) -> State:
    """Return the state after the entry."""
    return _advance(state, entry)[0]


def fold(entries: Iterable[Entry], state: State = INITIAL) -> State:
    """Return the state after all the entries."""
    return reduce(evolve, entries, state)


def step(state: State, entry: Entry) -> StepResult:
    """Return the next state, and the transitions of each lane."""
    # Transitions are made here alone: `evolve` runs for every entry of every fold, and needs none.
    now, moves, anomaly = _advance(state, entry)
    quiet = Transition(entry.position, entry.event.kind, anomaly=anomaly)
    return StepResult(now, tuple(_transition(now, move, quiet) for move in moves) or (quiet,))


def _advance(state: State, entry: Entry) -> tuple[State, list[_Move], str]:
    taken, impulses, anomaly = interpret(state, entry)
    lanes, moves = _moved(taken, impulses)
    # Most entries end no turn, and pay for no look at the rule.
    if taken.waiting or (taken.turn_state.holders and resting(taken.turn_state, lanes)):
        taken, asked, _ = following(taken._replace(lanes=lanes), entry)
        lanes, more = _moved(taken, asked)
        moves += more
    odd = bool(anomaly or [move for move in moves if move.row is None])
    lanes = lanes if isinstance(lanes, FrozenDict) else FrozenDict(lanes)
    stands = taken._replace(position=entry.position, lanes=lanes, anomalies=state.anomalies + odd)
    return stands, moves, anomaly


def _moved(state: State, impulses: Sequence[LaneTrigger]) -> tuple[Mapping[str, LaneState], list[_Move]]:
    # The same dict: states share the lanes that did not change.
    if not impulses:
        return state.lanes, []
    lanes, moves = dict(state.lanes), []
    for impulse in impulses:
        move = _move(state, impulse)
        lanes[move.after.address] = move.after
        moves.append(move)
    return lanes, moves


def _move(taken: State, impulse: LaneTrigger) -> _Move:
    """Return the lane after the impulse; unchanged if the lifecycle does not list it."""
    lane, trigger, reason = impulse
    source = lane.status
    moved = move(source, trigger, HOLDS, lane)
    if moved is None:
        # An entry of the log has happened, so a fold cannot refuse it: the lane stays as it was.
        before = taken.lane(lane.address)
        return _Move(before.status, before, trigger, None)
    row, target = moved
    # A lane that stays in its state is not copied a second time.
    return _Move(source, lane if source == target else lane._replace(status=target), trigger, row, reason)


def _transition(now: State, move: _Move, quiet: Transition) -> Transition:
    source, after, trigger, row, reason = move
    return Transition(
        position=quiet.position,
        kind=quiet.kind,
        lane=after.address,
        source=source,
        trigger=trigger,
        guard=tuple(name for name, _ in row.guards) if row else (),
        target=after.status,
        decision=decision(now, after),
        anomaly=quiet.anomaly if row else f"{trigger} is not listed for a lane that is {source}",
        reason=reason,
    )
