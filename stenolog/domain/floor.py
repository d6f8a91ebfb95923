"""Who has the floor: whom a person's words are for, and who is next when a turn is over.

The rule of turns says who (see `turns`); here is what every rule has in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .entry import Entry
from .events import AssistantMessage, Event, LlmError, UserMessage
from .lifecycle import BUSY
from .replacing import replacing
from .state import Floor, Lane, State, address
from .turns import CANCELLED, How, Next, Turn, around, rule_of
from .values import Control, Turns

_with_floor = replacing(State, "floor")


def is_pass(message: AssistantMessage, pass_token: str) -> bool:
    """Whether an answer says nothing but that the agent passes."""
    return not message.tool_calls and message.text.strip() == pass_token


def told(state: State, message: UserMessage, position: int) -> tuple[State, Next]:
    """The lanes that have to answer a message, and the state once they are asked.

    Those it names; where it names nobody, those whom the rule of turns gives the turn. What the system notes,
    or what is for the timeline alone, asks nobody.
    """
    if message.author_kind == "system" or not message.in_context:
        return state, Next()
    rule = rule_of(state.turns)
    if not rule.opens(message.to):
        return state, Next(tuple(dict.fromkeys(state.lane(where).address for where in message.to)))
    if not rule.keeps_floor:
        return state, rule.begin(state)
    floor = state.floor._replace(words=position, turns=0, passes=0, fails=0, ended="")
    lanes = {where: lane._replace(steps=0) if lane.steps else lane for where, lane in state.lanes.items()}
    state = state._replace(floor=floor, lanes=lanes)
    if floor.holds and rule.one_at_a_time:
        return state, Next()
    return _give(state, rule.begin(state), position)


def addressed(state: State, message: UserMessage) -> tuple[str, ...]:
    """The lanes that would have to answer a message, were it said now."""
    return told(state, message, state.position + 1)[1].lanes


def hearing(state: State, message: UserMessage) -> tuple[str, ...]:
    """Return the lanes that a message is for: those that it would ask, and those that have the turn."""
    if message.author_kind == "system" or not message.in_context:
        return ()
    rule = rule_of(state.turns)
    holding = state.floor.holds if rule.keeps_floor and rule.opens(message.to) else ()
    return tuple(dict.fromkeys((*addressed(state, message), *holding)))


def concerned(state: State, control: Control) -> tuple[Lane, ...]:
    """The lanes that a `cancel` or a `continue` is for: the one it names, else all that it can concern.

    Where one speaks at a time, one goes on at a time: whoever had the turn last, else who comes first.
    """
    if control.agent:
        lane = state.lanes.get(address(control.agent, control.task))
        return () if lane is None else (lane,)
    if control.action != "continue":
        return tuple(lane for lane in state.lanes.values() if lane.status in BUSY)
    failed = [where for where, lane in state.lanes.items() if lane.status == "failed"]
    rule = rule_of(state.turns)
    if rule.one_at_a_time:
        last = state.floor.last
        in_order = (last, *around(rule.line(state), last), *failed)
        failed = [where for where in in_order if where in failed][: 0 if state.floor.holds else 1]
    return tuple(state.lanes[where] for where in failed)


def resumed(state: State, lanes: Iterable[Lane], message: UserMessage, position: int) -> State:
    """The state in which lanes that failed in their turn, and are told to go on, have it again."""
    rule = rule_of(state.turns)
    if not rule.keeps_floor or state.floor.holds:
        return state
    line = rule.line(state)
    again = tuple(lane.address for lane in lanes if lane.status == "failed" and lane.address in line)
    if not again:
        return state
    words = position if message.parts else state.floor.words
    floor = state.floor._replace(words=words, turns=0, passes=0, fails=0)
    return _give(state._replace(floor=floor), Next(again), position)[0]


def named(state: State, where: str, to: Iterable[str]) -> tuple[State, tuple[str, ...]]:
    """What an answer does by naming others: whom it asks at once, or the state that keeps them for later.

    Who takes no part, or has left, is only spoken of.
    """
    others = tuple(other for other in dict.fromkeys(to) if other != where and state.takes_part(other))
    if not others:
        return state, ()
    rule, floor = rule_of(state.turns), state.floor
    if not rule.keeps_floor:
        return state, others
    if where in floor.holds and rule.hands_on(where):
        state = state._replace(floor=floor._replace(named=tuple(dict.fromkeys((*floor.named, *others)))))
    return state, ()


def ruled(before: State, now: State, turns: Turns | None, is_set: bool) -> State:
    """The state after a switch of settings: a new rule, or other members.

    Who has the turn keeps it. Where who had it last is no longer in line, the one before is who had it.
    """
    if is_set:
        now = now._replace(turns=turns)
        if not rule_of(turns).keeps_floor:
            return now if now.floor == Floor() else now._replace(floor=Floor())
    last = before.floor.last
    if not last or now.members == before.members:
        return now
    was, line = rule_of(before.turns).line(before), rule_of(now.turns).line(now)
    if last in line:
        return now
    earlier = reversed([*around(was, last)])
    return now._replace(floor=now.floor._replace(last=next((w for w in earlier if w in line), "")))


def resting(floor: Floor, lanes: Mapping[str, Lane]) -> list[str]:
    """Those who have the turn and have come to rest."""
    return [where for where in floor.holds if where not in lanes or lanes[where].status not in BUSY]


def passed_on(state: State, entry: Entry) -> tuple[State, Next]:
    """Who has the turn after an entry by which somebody who had it has come to rest."""
    floor, done = state.floor, resting(state.floor, state.lanes)
    if not done:
        return state, Next()
    rule, turn = rule_of(state.turns), Turn("", "answered")
    for where in done:
        turn = _turn(state, where, entry)
        floor = _counted(floor, turn, entry.position)
    left = tuple([where for where in floor.holds if where not in done])
    state = _with_floor(state, floor._replace(holds=left))
    if left:
        return state, Next()
    following = Next(reason=CANCELLED) if _stops_all(entry.event) else rule.after(state, turn)
    if floor.named:
        state = _with_floor(state, state.floor._replace(named=()))
    return _give(state, following, entry.position)


def _give(state: State, given: Next, position: int) -> tuple[State, Next]:
    """The turn to those lanes, beside those who have it; or to nobody any more."""
    floor = state.floor
    lanes = tuple([where for where in dict.fromkeys(given.lanes) if state.is_open(where)])
    if lanes:
        holds = tuple(dict.fromkeys((*floor.holds, *lanes)))
        floor = floor._replace(holds=holds, last=lanes[-1], given=position, ended="")
    elif not floor.holds:
        floor = floor._replace(ended=given.reason)
    return _with_floor(state, floor), Next(lanes, given.reason)


def _turn(state: State, where: str, entry: Entry) -> Turn:
    """The turn that a lane has ended by the entry."""
    lane, event, floor = state.lane(where), entry.event, state.floor
    how: How = "cancelled"
    view = entry.position
    if lane.status == "closed":
        how = "left"
    elif isinstance(event, AssistantMessage):
        token = state.turns.options.get("pass_token") if state.turns is not None else None
        how = "passed" if isinstance(token, str) and token and is_pass(event, token) else "answered"
        view = lane.seen
    elif lane.status == "failed":
        how = "failed"
        view = event.receipt.view if isinstance(event, LlmError) and event.receipt else view
    return Turn(where, how, saw=floor.words <= max(floor.given, view))


def _counted(floor: Floor, turn: Turn, position: int) -> Floor:
    """The floor with one more turn; one that did not see the person's last words is none of their round."""
    if turn.how == "answered":
        before = floor.before if floor.by == turn.lane else floor.said
        floor = floor._replace(said=position, by=turn.lane, before=before, passes=0, fails=0)
    if not turn.saw or turn.how in ("cancelled", "left"):
        return floor
    return floor._replace(
        turns=floor.turns + 1,
        passes=floor.passes + (turn.how == "passed"),
        fails=floor.fails + (turn.how == "failed"),
    )


def _stops_all(event: Event) -> bool:
    """Whether a person stopped everybody."""
    match event:
        case UserMessage(control=Control(action="cancel", agent="")):
            return True
        case _:
            return False
