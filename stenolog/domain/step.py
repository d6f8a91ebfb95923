"""The pure step: a state and an entry give the next state, and what each lane did.

`step` is total. What the lifecycle does not list leaves the lane where it is, and is an anomaly that
names what was found: an old or foreign log never fails to replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from types import MappingProxyType
from typing import NamedTuple

from .entry import Entry
from .events import AssistantMessage, LlmError, ModeSwitch, ToolResult, Unknown, UserMessage
from .lifecycle import Status, Trigger, move
from .state import Blocked, Decision, Lane, OpenCall, State, address, addressed, decision
from .values import Control

INITIAL = State()
HOLDS: MappingProxyType[str, Callable[[Lane], bool]] = MappingProxyType(
    {
        "has_calls": lambda lane: bool(lane.calls),
        "awaits_approval": lambda lane: any(call.approval for call in lane.calls),
        "calls_open": lambda lane: bool(lane.calls),
        "will_retry": lambda lane: lane.retry_at is not None,
    }
)
"""What each guard asks of a lane that has already taken in what the entry brings."""


class Transition(NamedTuple):
    """What one entry did to one lane, and what the lane must do next.

    `guard` names the guards that let it through. An entry that moves no lane has one transition with
    an empty `lane`. `anomaly` says what was out of order.
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


class Step(NamedTuple):
    """The next state, and the transitions that led to it."""

    state: State
    transitions: tuple[Transition, ...]


class _Impulse(NamedTuple):
    """A lane that has taken in what the entry brings, and the trigger that now moves it."""

    lane: Lane
    trigger: Trigger


class _Taken(NamedTuple):
    """What an entry means: the state without its lanes' moves, the impulses, and what is odd about it."""

    state: State
    impulses: tuple[_Impulse, ...] = ()
    anomaly: str = ""


def evolve(state: State, entry: Entry) -> State:
    """The state after the entry."""
    return step(state, entry).state


def fold(entries: Iterable[Entry], state: State = INITIAL) -> State:
    """The state after all the entries."""
    return reduce(evolve, entries, state)


def step(state: State, entry: Entry) -> Step:
    """The next state, and what each lane did on the way."""
    now, impulses, anomaly = _take(state._replace(position=entry.position), entry)
    quiet = Transition(entry.position, entry.event.kind, anomaly=anomaly)
    if not impulses:
        return Step(now._replace(anomalies=now.anomalies + bool(anomaly)), (quiet,))
    lanes = dict(now.lanes)
    moves = []
    for impulse in impulses:
        before = state.lane(impulse.lane.address)
        after, move_made = _move(before, impulse, quiet)
        lanes[before.address] = after
        moves.append((after, move_made))
    odd = any(made.anomaly for _, made in moves)
    now = now._replace(lanes=lanes, anomalies=now.anomalies + odd)
    return Step(now, tuple(made._replace(decision=decision(now, after)) for after, made in moves))


def _move(before: Lane, impulse: _Impulse, quiet: Transition) -> tuple[Lane, Transition]:
    """The lane after the impulse; the lane as it was where the lifecycle does not list it."""
    lane, trigger = impulse
    moved = move(before.status, trigger, lambda guard: HOLDS[guard](lane))
    made = quiet._replace(lane=before.address, source=before.status, trigger=trigger, target=before.status)
    if moved is None:
        return before, made._replace(anomaly=f"{trigger} is not listed for a lane that is {before.status}")
    row, target = moved
    return lane._replace(status=target), made._replace(
        guard=tuple(name for name, _ in row.guards), target=target
    )


def _take(state: State, entry: Entry) -> _Taken:
    event = entry.event
    match event:
        case UserMessage(control=control):
            if control is None:
                return _asked(state, event, entry.position)
            return _controlled(state, control, entry.position)
        case AssistantMessage():
            return _said(state, event, entry)
        case ToolResult():
            return _resulted(state, event, entry.position)
        case LlmError():
            return _erred(state, event)
        case ModeSwitch():
            return _switched(state, event)
        case Unknown(ignorable=True):
            return _Taken(state, anomaly=f"unknown kind {event.topic}, ignorable")
        case Unknown():
            blocked = state.blocked or Blocked(entry.position, event.topic, event.needs)
            return _Taken(state._replace(blocked=blocked), anomaly=f"unknown kind {event.topic}")


def _asked(state: State, message: UserMessage, position: int) -> _Taken:
    lanes = addressed(state, message)
    if not lanes and message.author_kind != "system" and message.in_context:
        return _Taken(state._replace(waiting=position))
    return _Taken(state, tuple(_ask(state, where, position) for where in lanes))


def _ask(state: State, where: str, position: int) -> _Impulse:
    lane = state.lane(where)
    return _Impulse(lane._replace(asked=position, steps=0, attempt=0, retry_at=None), "asked")


def _controlled(state: State, control: Control, position: int) -> _Taken:
    if control.action in ("approve", "refuse"):
        for lane, call in state.open_calls():
            if control.call is not None and (call.entry, call.nth) == (
                control.call.entry,
                control.call.index,
            ):
                calls = tuple(c._replace(approval=False) if c is call else c for c in lane.calls)
                trigger: Trigger = "approved" if control.action == "approve" else "refused"
                return _Taken(state, (_Impulse(lane._replace(calls=calls), trigger),))
        return _Taken(state, anomaly=f"{control.action}: no such call is open")
    lanes = _named(state, control)
    if not lanes:
        return _Taken(state, anomaly=f"{control.action}: no such lane")
    if control.action == "cancel":
        stopped = (lane._replace(calls=(), retry_at=None) for lane in lanes)
        return _Taken(state, tuple(_Impulse(lane, "cancelled") for lane in stopped))
    goes_on = (lane._replace(asked=position, attempt=0, retry_at=None) for lane in lanes)
    return _Taken(state, tuple(_Impulse(lane, "continued") for lane in goes_on))


def _named(state: State, control: Control) -> list[Lane]:
    """The lanes a control is for: the one it names, else all that it can concern."""
    if control.agent:
        return [
            lane for lane in state.lanes.values() if (lane.agent, lane.task) == (control.agent, control.task)
        ]
    concerned = (
        ("failed",)
        if control.action == "continue"
        else ("awaiting_llm", "awaiting_approval", "awaiting_tools")
    )
    return [lane for lane in state.lanes.values() if lane.status in concerned]


def _said(state: State, message: AssistantMessage, entry: Entry) -> _Taken:
    if message.purpose != "answer":
        covered = tuple((span.first, span.last) for span in message.covers)
        return _Taken(state._replace(summaries=state.summaries + covered))
    where = address(message.agent, message.task)
    lane = state.lane(where)
    asks = state.approvals.get(message.agent, ())
    calls = tuple(
        OpenCall(entry.id, entry.position, index, call.id, call.name, call.name in asks)
        for index, call in enumerate(message.tool_calls)
    )
    answered = lane._replace(
        answered=entry.position,
        calls=calls,
        attempt=0,
        retry_at=None,
        steps=lane.steps + 1,
        session=message.session or lane.session,
    )
    mentioned = (to for to in message.to if to != where and (to in state.lanes or to in state.members))
    asked = tuple(_ask(state, to, entry.position) for to in mentioned)
    return _Taken(state._replace(waiting=0), (_Impulse(answered, "answered"), *asked))


def _resulted(state: State, result: ToolResult, position: int) -> _Taken:
    found = find_call(state, result)
    if found is None:
        return _Taken(state, anomaly=f"a result for {result.call_id!r}, which is no open call")
    lane, call = found
    rest = tuple(other for other in lane.calls if other is not call)
    return _Taken(state, (_Impulse(lane._replace(calls=rest, asked=position), "resulted"),))


def find_call(state: State, result: ToolResult) -> tuple[Lane, OpenCall] | None:
    """The open call that a result belongs to: the one it names, else the nearest of its id."""
    if result.call is not None:
        named = (result.call.entry, result.call.index)
        return next(((lane, c) for lane, c in state.open_calls() if (c.entry, c.nth) == named), None)
    same = [(lane, call) for lane, call in state.open_calls() if call.id == result.call_id]
    return max(same, key=lambda pair: (pair[1].position, -pair[1].nth), default=None)


def _erred(state: State, error: LlmError) -> _Taken:
    lane = state.lane(address(error.agent, error.task))._replace(
        attempt=error.attempt, retry_at=error.retry_at
    )
    state = state._replace(waiting=0)
    if error.category == "cancelled":
        return _Taken(state, (_Impulse(lane._replace(calls=(), retry_at=None), "cancelled"),))
    return _Taken(state, (_Impulse(lane, "erred"),))


def _switched(state: State, switch: ModeSwitch) -> _Taken:
    stay = tuple(agent for agent in state.members if agent not in switch.leaves)
    members = stay + tuple(agent for agent in switch.joins if agent not in stay)
    approvals = dict(state.approvals)
    for agent, card in switch.cards.items():
        tools = card.tools if card is not None and card.tools is not None else ()
        approvals[agent] = tuple(tool.name for tool in tools if tool.approval)
    joined = tuple(_Impulse(state.lane(agent), "joined") for agent in switch.joins)
    left = tuple(_Impulse(state.lane(agent)._replace(calls=()), "left") for agent in switch.leaves)
    kept = {agent: tools for agent, tools in approvals.items() if tools}
    return _Taken(state._replace(members=members, approvals=kept), joined + left)
