"""Turn-taking: the lanes that a person's words are for, and the next ones when a turn is over.

A rule of turns decides (see `turns`); this module holds what all rules share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, Event, LlmError, ToolResult, UserMessage
from stenolog.domain.values import Control, TurnPolicy

from .handoffs import is_of_handoff
from .lifecycle import BUSY
from .state import LaneState, State, TurnState, address
from .turns import CANCELLED, How, NextTurn, TurnView, around, present, rule_of


def is_pass(message: AssistantMessage, pass_token: str) -> bool:
    """Return whether an answer is just the agent's pass token."""
    return not message.tool_calls and message.text.strip() == pass_token


def asked_lanes(state: State, message: UserMessage, position: int) -> tuple[State, NextTurn]:
    """Return the lanes that have to answer a message, and the state once they are asked.

    Those it names, else those whom the rule of turns gives the turn. A note of the system, or a message for
    the timeline only, asks no lane.
    """
    if message.author_kind == "system" or not message.in_context:
        return state, NextTurn()
    rule, is_handoff = rule_of(state.turns), bool(message.meta) and is_of_handoff(message)
    if is_handoff or not rule.opens(message.to):
        named = tuple(dict.fromkeys(state.lane(where).address for where in message.to))
        # The turn comes to these once the lanes that have it now are at rest.
        later = [other for _, other in state.turn_state.transfers] if is_handoff else ()
        return state, NextTurn(tuple([where for where in named if where not in later]))
    if not rule.tracks_turns:
        return state, rule.begin(state)
    turn_state = state.turn_state._replace(
        last_person_at=position, turns_since=0, passes_in_row=0, failures_in_row=0, end_reason=""
    )
    lanes = {where: lane._replace(steps=0) if lane.steps else lane for where, lane in state.lanes.items()}
    state = state._replace(turn_state=turn_state, lanes=lanes)
    # The turn under way goes on; its end hands the words on.
    if turn_state.holders and rule.one_at_a_time:
        return state, NextTurn()
    return grant_turn(state, rule.begin(state), position)


def addressed(state: State, message: UserMessage) -> tuple[str, ...]:
    """Return the lanes that would have to answer a message, were it said now."""
    return asked_lanes(state, message, state.position + 1)[1].lanes


def hearing(state: State, message: UserMessage) -> tuple[str, ...]:
    """Return the lanes that a message would ask, and those that have the turn."""
    if message.author_kind == "system" or not message.in_context:
        return ()
    rule = rule_of(state.turns)
    holding = state.turn_state.holders if rule.tracks_turns and rule.opens(message.to) else ()
    return tuple(dict.fromkeys((*addressed(state, message), *holding)))


def control_targets(state: State, control: Control) -> tuple[LaneState, ...]:
    """Return the lanes that a `cancel` or a `continue` is for: the named one, else all possible."""
    if control.agent:
        lane = state.lanes.get(address(control.agent, control.task))
        return () if lane is None else (lane,)
    if control.action != "continue":
        return tuple(lane for lane in state.lanes.values() if lane.status in BUSY)
    failed = [where for where, lane in state.lanes.items() if lane.status == "failed"]
    rule = rule_of(state.turns)
    if rule.one_at_a_time:
        last = state.turn_state.last_holder
        in_order = (last, *around(rule.line(state), last), *failed)
        # Where one speaks at a time, one goes on at a time: the last holder, else the first in line.
        failed = [where for where in in_order if where in failed][: 0 if state.turn_state.holders else 1]
    return tuple(state.lanes[where] for where in failed)


def resume_turn(state: State, lanes: Iterable[LaneState], message: UserMessage, position: int) -> State:
    """Return the state in which lanes that failed in their turn, and may continue, have it again."""
    rule = rule_of(state.turns)
    if not rule.tracks_turns or state.turn_state.holders:
        return state
    line = rule.line(state)
    again = tuple(lane.address for lane in lanes if lane.status == "failed" and lane.address in line)
    if not again:
        return state
    words = position if message.parts else state.turn_state.last_person_at
    turn_state = state.turn_state._replace(
        last_person_at=words, turns_since=0, passes_in_row=0, failures_in_row=0
    )
    return grant_turn(state._replace(turn_state=turn_state), NextTurn(again), position)[0]


def mentioned_lanes(state: State, where: str, to: Iterable[str]) -> tuple[State, tuple[str, ...]]:
    """Return the lanes that an answer asks at once by naming them, or the state that records them for later.

    Agents that have not joined, or have left, are not asked.
    """
    others = tuple(other for other in dict.fromkeys(to) if other != where and state.takes_part(other))
    if not others:
        return state, ()
    rule, turn_state = rule_of(state.turns), state.turn_state
    if not rule.tracks_turns:
        return state, others
    if where in turn_state.holders and rule.hands_on(where):
        state = state._replace(
            turn_state=turn_state._replace(handed_to=tuple(dict.fromkeys((*turn_state.handed_to, *others))))
        )
    return state, ()


def transferred(state: State, where: str, other: str) -> State:
    """Return the state after a call of a lane that hands on; the turn goes on when its holders are at rest.

    A lane without the turn gives none: the hand-off's message asks the other at once.
    """
    turn_state = state.turn_state
    if where not in turn_state.holders or not present(state, (other,)):
        return state
    transfers = tuple(dict.fromkeys((*turn_state.transfers, (where, other))))
    return state._replace(turn_state=turn_state._replace(transfers=transfers))


def apply_turn_rule(before: State, now: State, turns: TurnPolicy | None, is_set: bool) -> State:
    """Return the state after a switch of settings: a new rule, or other members.

    The lanes that have the turn keep it.
    """
    if is_set:
        now = now._replace(turns=turns)
        if not rule_of(turns).tracks_turns:
            return now if now.turn_state == TurnState() else now._replace(turn_state=TurnState())
    last = before.turn_state.last_holder
    if not last or now.members == before.members:
        return now
    was, line = rule_of(before.turns).line(before), rule_of(now.turns).line(now)
    if last in line:
        return now
    # The last holder has left the line: the nearest one before it counts as the last holder.
    earlier = reversed([*around(was, last)])
    return now._replace(
        turn_state=now.turn_state._replace(last_holder=next((w for w in earlier if w in line), ""))
    )


def resting(turn_state: TurnState, lanes: Mapping[str, LaneState]) -> list[str]:
    """Return the lanes that have the turn and have come to rest."""
    return [where for where in turn_state.holders if where not in lanes or lanes[where].status not in BUSY]


def after_turn(state: State, entry: Entry) -> tuple[State, NextTurn]:
    """Return the state and the next turn after an entry by which a lane with the turn has come to rest."""
    turn_state, done = state.turn_state, resting(state.turn_state, state.lanes)
    if not done:
        return state, NextTurn()
    rule, turn = rule_of(state.turns), TurnView("", "answered")
    for where in done:
        turn = _turn(state, where, entry)
        turn_state = _counted(turn_state, turn, entry.position)
    left = tuple([where for where in turn_state.holders if where not in done])
    state = state._replace(turn_state=turn_state._replace(holders=left))
    # The rule is asked once all holders have come to rest.
    if left:
        return state, NextTurn()
    following = NextTurn(reason=CANCELLED)
    if not _stops_all(entry.event):
        # A call that hands on comes before the order of the rule.
        following = _transfers(state) or rule.after(state, turn)
    handed_by = _handed_by(turn_state, following)
    if turn_state.handed_to or turn_state.transfers or turn_state.handed_by:
        changed = state.turn_state._replace(handed_to=(), transfers=(), handed_by=handed_by)
        state = state._replace(turn_state=changed)
    line = rule.line(state) if turn_state.transfers else ()
    granted, turn_given = grant_turn(state, following, entry.position)
    if turn_state.transfers and not any(where in line for where in turn_given.lanes):
        # After an agent outside the order, that goes on from where it was.
        last = turn_state.last_holder
        granted = granted._replace(turn_state=granted.turn_state._replace(last_holder=last))
    return granted, turn_given


def _transfers(state: State) -> NextTurn | None:
    """Return the lanes that calls have handed the turn on to; None if there are none."""
    pairs = [pair for pair in state.turn_state.transfers if present(state, pair[1:])]
    if not pairs:
        return None
    callers, others = (tuple(dict.fromkeys(each)) for each in zip(*pairs, strict=True))
    return NextTurn(others, f"{' and '.join(callers)} handed on")


def _handed_by(turn_state: TurnState, following: NextTurn) -> tuple[str, ...]:
    """Return the lanes that have handed on and have not had the turn since."""
    if not following.lanes:
        return ()
    handed_by = dict.fromkeys((*turn_state.handed_by, *(caller for caller, _ in turn_state.transfers)))
    back = [nth for nth, where in enumerate(handed_by) if where in following.lanes]
    return tuple(handed_by)[: min(back, default=None)]


def grant_turn(state: State, given: NextTurn, position: int) -> tuple[State, NextTurn]:
    """Return the state with the turn granted to those lanes, beside its holders, or to none any more."""
    turn_state = state.turn_state
    lanes = tuple([where for where in dict.fromkeys(given.lanes) if state.is_open(where)])
    if lanes:
        holds = tuple(dict.fromkeys((*turn_state.holders, *lanes)))
        turn_state = turn_state._replace(
            holders=holds, last_holder=lanes[-1], granted_at=position, end_reason=""
        )
    elif not turn_state.holders:
        turn_state = turn_state._replace(end_reason=given.reason)
    return state._replace(turn_state=turn_state), NextTurn(lanes, given.reason)


def _turn(state: State, where: str, entry: Entry) -> TurnView:
    lane, event, turn_state = state.lane(where), entry.event, state.turn_state
    how: How = "cancelled"
    view = entry.position
    if lane.status == "closed":
        how = "left"
    elif isinstance(event, ToolResult):
        # A result came to rest with it: its tool ends the run.
        how, view = "answered", lane.seen
    elif isinstance(event, AssistantMessage):
        token = state.turns.options.get("pass_token") if state.turns is not None else None
        how = "passed" if isinstance(token, str) and token and is_pass(event, token) else "answered"
        view = lane.seen
    elif lane.status == "failed":
        how = "failed"
        view = event.receipt.view if isinstance(event, LlmError) and event.receipt else view
    return TurnView(where, how, saw=turn_state.last_person_at <= max(turn_state.granted_at, view))


def _counted(turn_state: TurnState, turn: TurnView, position: int) -> TurnState:
    if turn.how == "answered":
        before = (
            turn_state.previous_answer_at
            if turn_state.last_answer_by == turn.lane
            else turn_state.last_answer_at
        )
        turn_state = turn_state._replace(
            last_answer_at=position,
            last_answer_by=turn.lane,
            previous_answer_at=before,
            passes_in_row=0,
            failures_in_row=0,
        )
    # A lane that did not see the person's last words takes no part in their round.
    if not turn.saw or turn.how in ("cancelled", "left"):
        return turn_state
    return turn_state._replace(
        turns_since=turn_state.turns_since + 1,
        passes_in_row=turn_state.passes_in_row + (turn.how == "passed"),
        failures_in_row=turn_state.failures_in_row + (turn.how == "failed"),
    )


def _stops_all(event: Event) -> bool:
    match event:
        case UserMessage(control=Control(action="cancel", agent="")):
            return True
        case _:
            return False
