"""Translation of an entry into changes of the state, and into a trigger for each lane that it moves.

The lifecycle decides whether a lane can be moved so (see `step`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from stenolog.domain import events
from stenolog.domain.base.model import FrozenDict
from stenolog.domain.entry import Entry
from stenolog.domain.erasure import DAMAGED, LOST, WORDLESS
from stenolog.domain.errors import InvalidPolicyError
from stenolog.domain.settings import members_after
from stenolog.domain.values import Control, TurnPolicy
from stenolog.domain.verdict import verdict_of

from . import turn_taking
from .handoffs import is_of_handoff, taking_over
from .lifecycle import Trigger
from .state import (
    PAUSED,
    Blocked,
    LaneState,
    OpenCall,
    State,
    Summary,
    address,
    fault,
    find_call,
    joined,
    named_call,
    summary_of,
)
from .turns import NextTurn, load


class LaneTrigger(NamedTuple):
    """A lane with an entry's changes, all but its status, and the trigger that moves it.

    `reason` says why a rule of turns asks it.
    """

    lane: LaneState
    trigger: Trigger
    reason: str = ""


class Interpretation(NamedTuple):
    """An entry's effect: the state before its lanes move, their impulses, and what is out of order."""

    state: State
    impulses: tuple[LaneTrigger, ...] = ()
    anomaly: str = ""


def interpret(state: State, entry: Entry) -> Interpretation:
    """Translate the entry into state changes and triggers of lanes."""
    event = entry.event
    match event:
        case events.UserMessage():
            return _on_user_message(state, event, entry.position)
        case events.AssistantMessage():
            return _on_answer(state, event, entry)
        case events.ToolResult():
            return _resulted(state, event, entry.position)
        case events.LlmError():
            return _on_error(state, event)
        case events.ModeSwitch():
            return _switched(state, event)
        case events.Unknown(topic=topic) if topic in (*WORDLESS, LOST):
            return Interpretation(state)
        case events.Damaged():
            # The first one counts: it says from where on nothing can be decided.
            blocked = state.blocked or Blocked(entry.position, DAMAGED, event.reason)
            return Interpretation(state._replace(blocked=blocked), anomaly=f"damaged: {event.reason}")
        case events.Unknown(ignorable=True):
            return Interpretation(state, anomaly=f"unknown kind {event.topic}, ignorable")
        case events.Unknown():
            blocked = state.blocked or Blocked(entry.position, event.topic, event.needs)
            return Interpretation(state._replace(blocked=blocked), anomaly=f"unknown kind {event.topic}")


def following(state: State, entry: Entry) -> Interpretation:
    """Return the change of turns after an entry has moved its lanes."""
    # A message that no lane was there for waits until an agent joins.
    if state.waiting and isinstance(entry.event, events.ModeSwitch) and entry.event.joins:
        return _heard_late(state)
    state, turn = turn_taking.after_turn(state, entry)
    return _asking(state, turn, entry.position)


def _heard_late(state: State) -> Interpretation:
    position = state.waiting
    state, turn = turn_taking.asked_lanes(state._replace(waiting=0), events.UserMessage(), position)
    return _asking(state, turn, position)


def _asking(state: State, turn: NextTurn, position: int) -> Interpretation:
    lanes = map(state.lane, turn.lanes)
    return Interpretation(state, tuple([_ask(lane, position, lane.steps, turn.reason) for lane in lanes]))


def _on_user_message(state: State, message: events.UserMessage, position: int) -> Interpretation:
    if message.control is not None:
        return _controlled(state, message, position)
    state, turn = turn_taking.asked_lanes(state, message, position)
    if message.meta and is_of_handoff(message):
        # What the one that handed on was told holds for the other: no person has spoken to it.
        lanes = map(state.lane, turn.lanes)
        return Interpretation(state, tuple([_ask(lane, position, lane.steps, turn.reason) for lane in lanes]))
    if (
        not turn.lanes
        and not state.turn_state.holders
        and message.author_kind != "system"
        and message.in_context
    ):
        state = state._replace(waiting=position)
    asked = [_ask(state.lane(where), position, 0, turn.reason) for where in turn.lanes]
    return Interpretation(state, tuple(asked))


def _ask(lane: LaneState, position: int, steps: int, reason: str = "") -> LaneTrigger:
    # A lane that waits to retry keeps waiting, since its request has yet to be sent.
    waits = lane.status == "awaiting_llm" and lane.retry_at is not None
    attempt, retry_at = (lane.attempt, lane.retry_at) if waits else (0, None)
    # While calls are open, a message from outside may stand between two parts of one response.
    response = lane.response if lane.calls else ""
    asked = lane._replace(asked=position, attempt=attempt, retry_at=retry_at, steps=steps, response=response)
    if lane.calls:
        # What is said meanwhile is answered, so that no result ends the run before.
        asked = asked._replace(
            has_ended=False, calls=tuple([call._replace(ends=False) for call in lane.calls])
        )
    return LaneTrigger(asked, "asked", reason)


def _controlled(state: State, message: events.UserMessage, position: int) -> Interpretation:
    control = message.control
    assert control is not None, "see `_on_user_message`"
    if control.action in ("ask", "answer"):
        return _on_question(state, control, position)
    if control.action in ("approve", "refuse"):
        return _on_approval(state, message, control, position)
    lanes = turn_taking.control_targets(state, control)
    if not lanes:
        return Interpretation(state, anomaly=f"{control.action}: no such lane")
    if control.action == "cancel":
        return Interpretation(state, tuple(_stop(lane, "cancelled") for lane in lanes))
    goes_on = (lane._replace(asked=position, attempt=0, retry_at=None, steps=0) for lane in lanes)
    state = turn_taking.resume_turn(state, lanes, message, position)
    return Interpretation(state, tuple(LaneTrigger(lane, "continued") for lane in goes_on))


def _on_approval(
    state: State, message: events.UserMessage, control: Control, position: int
) -> Interpretation:
    """Record an approval or refusal; a refused call stays open until its result."""
    found = named_call(state, control.call) if control.call is not None else None
    if found is None:
        return Interpretation(state, anomaly=f"{control.action}: no such call is open")
    lane, call = found
    if control.action == "refuse":
        return Interpretation(state, (LaneTrigger(lane, "refused"),))
    approved = call._replace(approval=False, approved=position, edited=bool(control.arguments))
    if verdict_of(message) is not None and not call.waits:
        # A check gives a call that is about to run other arguments; its lane stays where it is.
        calls = tuple(approved if other is call else other for other in lane.calls)
        changed = {**state.lanes, lane.address: lane._replace(calls=calls)}
        return Interpretation(state._replace(lanes=FrozenDict(changed)))
    # Only the approval that a call waits for counts: later ones come when it may have run.
    judged = approved if call.approval else call
    calls = tuple(judged if other is call else other for other in lane.calls)
    return Interpretation(state, (LaneTrigger(lane._replace(calls=calls), "approved"),))


def _on_question(state: State, control: Control, position: int) -> Interpretation:
    """Record a tool's question, or its answer, after which the call runs again."""
    found = named_call(state, control.call) if control.call is not None else None
    is_asked = control.action == "ask"
    if found is None or (found[1].waits if is_asked else not found[1].question):
        return Interpretation(
            state, anomaly=f"{control.action}: no such call {'runs' if is_asked else 'asks'}"
        )
    lane, call = found
    if is_asked:
        judged = call._replace(question=position, questions=call.questions + 1)
    else:
        judged = call._replace(question=0)
    calls = tuple(judged if other is call else other for other in lane.calls)
    trigger: Trigger = "questioned" if is_asked else "approved"
    return Interpretation(state, (LaneTrigger(lane._replace(calls=calls), trigger),))


def _stop(lane: LaneState, trigger: Trigger) -> LaneTrigger:
    # Results of its calls may still come, but the lane waits for none of them.
    return LaneTrigger(lane._replace(calls=(), retry_at=None, response=""), trigger)


def _on_answer(state: State, message: events.AssistantMessage, entry: Entry) -> Interpretation:
    state, anomaly = _covered(state, message, entry.position) if message.covers else (state, "")
    where = address(message.agent, message.task)
    lane = state.lane(where)
    if not takes_turn(lane, message):
        return Interpretation(state, anomaly=anomaly)
    if message.replaces is not None:
        anew = lane._replace(answered=entry.position, calls=_calls(state, message, entry))
        return Interpretation(state, (LaneTrigger(anew, "answered"),), anomaly)
    # An answer without a receipt was imported or written by hand: it has seen all there was.
    seen = entry.position if message.receipt is None else message.receipt.view
    calls, session = _calls(state, message, entry), message.session or lane.session
    steps, response = lane.steps + 1, response_of(message)
    # The calls of the response's earlier parts still run.
    if goes_on(lane, message):
        calls, steps = lane.calls + calls, lane.steps
    # The provider goes on with a paused answer, which the lane has not seen the end of.
    if message.finish_reason == PAUSED and not calls:
        lane, seen = lane._replace(asked=entry.position), min(seen, entry.position - 1)
    answered = lane._replace(
        answered=entry.position,
        seen=seen,
        calls=calls,
        attempt=0,
        retry_at=None,
        steps=steps,
        session=session,
        response=response,
        has_ended=False,
    )
    impulses = [LaneTrigger(answered, "answered")]
    if message.to:
        state, others = turn_taking.mentioned_lanes(state, where, message.to)
        others_lanes = map(state.lane, others)
        impulses += [_ask(other, entry.position, other.steps) for other in others_lanes]
    if state.waiting:
        state = state._replace(waiting=0)
    return Interpretation(state, tuple(impulses), anomaly)


def takes_turn(lane: LaneState, message: events.AssistantMessage) -> bool:
    """Return whether the message moves its lane; only an answer does.

    An answer that replaces another one asks no agent again. But a lane that waits for the calls of the
    replaced answer waits for the calls of this one.
    """
    if message.purpose != "answer":
        return False
    return message.replaces is None or (bool(lane.calls) and message.replaces == lane.answered)


def response_of(message: events.AssistantMessage) -> str:
    """Return the foreign id of the response that a message is a part of; "" if none."""
    source = message.source
    return f"{source.system}:{source.id}" if source is not None and source.id else ""


def goes_on(lane: LaneState, message: events.AssistantMessage) -> bool:
    """Return whether a message is a further part of the lane's last response."""
    # Agents that run several tools at once write one response as several messages, with results between them.
    return message.replaces is None and bool(lane.response) and lane.response == response_of(message)


def _calls(state: State, message: events.AssistantMessage, entry: Entry) -> tuple[OpenCall, ...]:
    found = message.tool_calls
    if not found:
        return ()
    asks, ends = state.approvals.get(message.agent, ()), state.endings.get(message.agent, ())
    calls = [
        OpenCall(entry.id, entry.position, nth, call.id, call.name, call.name in asks, ends=call.name in ends)
        for nth, call in enumerate(found)
    ]
    return tuple(calls)


def _covered(state: State, message: events.AssistantMessage, position: int) -> tuple[State, str]:
    summary = summary_of(position, message, state.summaries)
    if summary is None:
        return state, ""
    wrong = cover_fault(state, summary)
    return (state, wrong) if wrong else (state._replace(summaries=joined(state.summaries, summary)), "")


def cover_fault(state: State, summary: Summary) -> str:
    """Return why the summary must not replace the messages that it covers; "" if it may."""
    return fault(summary, state.summaries, (call.position for _, call in state.open_calls()))


def _resulted(state: State, result: events.ToolResult, position: int) -> Interpretation:
    found = find_call(state, result)
    if found is None:
        # A result that came after its call was closed is marked as late, and is no anomaly.
        is_late = result.call is not None and events.LATE in result.tags
        anomaly = "" if is_late else f"a result for {result.call_id!r}, which is no open call"
        return Interpretation(state, anomaly=anomaly)
    lane, call = found
    rest = tuple([other for other in lane.calls if other is not call])
    ended = lane.has_ended or (call.ends and not result.is_error)
    after = lane._replace(calls=rest, asked=position, has_ended=ended)
    if result.meta and (other := taking_over(result)):
        state = turn_taking.transferred(state, lane.address, other)
    return Interpretation(state, (LaneTrigger(after, "resulted"),))


def _on_error(state: State, error: events.LlmError) -> Interpretation:
    lane = state.lane(address(error.agent, error.task))
    if state.waiting:
        state = state._replace(waiting=0)
    if error.category == "cancelled" and error.retry_at is None:
        if lane.status == "awaiting_llm" and 0 < (error.cause or 0) < lane.asked:
            # The call that was stopped is not the one that the lane waits for by now.
            return Interpretation(state)
        session = error.session or lane.session
        stopped = lane._replace(attempt=error.attempt, session=session)
        return Interpretation(state, (_stop(stopped, "cancelled"),))
    # A session dies with its backend; any other failure may name the one that the next call resumes.
    dies = error.category == "process_exited" or events.was_stopped(error)
    session = "" if dies else error.session or lane.session
    failed = lane._replace(
        attempt=error.attempt, retry_at=error.retry_at, category=error.category, session=session
    )
    return Interpretation(state, (LaneTrigger(failed, "erred"),))


def _switched(state: State, switch: events.ModeSwitch) -> Interpretation:
    ended = {where: _without_session(lane) for where, lane in state.lanes.items() if _ends_its(switch, lane)}
    if ended:
        state = state._replace(lanes={**state.lanes, **ended})
    turns = switch.turns if isinstance(switch.turns, TurnPolicy) else None
    now = state._replace(
        members=members_after(state.members, switch),
        approvals=_tools(state.approvals, switch, "approval"),
        endings=_tools(state.endings, switch, "ends_run"),
        summaries=tuple(summary for summary in state.summaries if not _ends(switch, summary)),
    )
    now = turn_taking.apply_turn_rule(state, now, turns, is_set=switch.turns is not events.UNCHANGED)
    gone = (agent for agent in dict.fromkeys(switch.leaves) if agent not in switch.joins)
    left = (_stop(lane, "left") for agent in gone for lane in state.lanes_of(agent))
    joins = (LaneTrigger(state.lane(agent), "joined") for agent in dict.fromkeys(switch.joins))
    return Interpretation(now, (*left, *joins), turns_fault(turns))


def turns_fault(turns: TurnPolicy | None) -> str:
    """Return why a turn rule is unknown here, so that turns go by address; "" if it is known."""
    try:
        if turns is not None:
            load(turns)
    except InvalidPolicyError as error:
        return f"turns: {error}"
    return ""


def ends_sessions(switch: events.ModeSwitch, agent: str) -> bool:
    """Return whether an agent's stateful backend begins a new session."""
    # A session goes on in the parent of a fork alone. None can be made to forget what a reset or a rewind
    # took away, or to know what came back.
    resets = switch.context_from is not events.UNCHANGED and (not switch.agents or agent in switch.agents)
    card = switch.cards.get(agent)
    # Another model was called meanwhile, or is called now.
    is_other = card is not None and "model" in card.patched
    return switch.fork or resets or switch.hides is not events.UNCHANGED or is_other


def _ends_its(switch: events.ModeSwitch, lane: LaneState) -> bool:
    return bool(lane.session) and ends_sessions(switch, lane.agent)


def _without_session(lane: LaneState) -> LaneState:
    return lane._replace(session="")


def _ends(switch: events.ModeSwitch, summary: Summary) -> bool:
    start, hides, position = switch.context_from, switch.hides, summary.position
    concerns = not switch.agents or summary.author.partition("/")[0] in switch.agents
    if isinstance(start, int) and position < start and concerns:
        return True
    return isinstance(hides, tuple) and any(position in span for span in hides)


def _tools(
    known: Mapping[str, tuple[str, ...]], switch: events.ModeSwitch, flag: Literal["approval", "ends_run"]
) -> FrozenDict[tuple[str, ...]]:
    """Return each agent's tools with a flag after a mode switch."""
    changed = {
        agent: tuple(tool.name for tool in (card.tools if card and card.tools else ()) if getattr(tool, flag))
        for agent, card in switch.cards.items()
    }
    return FrozenDict({agent: tools for agent, tools in {**known, **changed}.items() if tools})
