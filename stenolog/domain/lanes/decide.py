"""May this happen now? `decide` refuses what is illegal, and completes what is legal.

A command is the event that a caller wants to record. The returned events are appended together, at the
position of the state; none if nothing is left to do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from stenolog.domain import events
from stenolog.domain.errors import IllegalCommandError, UnsupportedVersionError
from stenolog.domain.values import CallRef, Control, TurnPolicy

from .lifecycle import Trigger, legal
from .state import LaneState, OpenCall, State, address, blocked_error, find_call, named_call, summary_of
from .triggers import cover_fault, takes_turn, turns_fault
from .turn_taking import addressed, control_targets, hearing
from .turns import TURN_RULES

REFUSED = "The user refused this call; it was not run."
UNANSWERED = "The user did not answer the question of this call, which ended there."
CANCELLED = "Cancelled by the user before a result was there."
LEFT = "The agent left before a result was there."


def decide(state: State, command: events.Event) -> tuple[events.Event, ...]:
    """Return the events that record the command.

    Raises `IllegalCommandError` with the state, the command and what would be legal,
    `UnsupportedVersionError` if the log holds an event that only a later release understands, and
    `CorruptLogError` for a damaged one.
    """
    # Behind an entry that this release does not know, what is legal cannot be known either.
    if state.blocked is not None:
        raise blocked_error(state.blocked)
    match command:
        case events.UserMessage():
            return _user(state, command)
        case events.AssistantMessage():
            return _assistant(state, command)
        case events.ToolResult():
            if find_call(state, command) is None:
                raise _illegal(command, f"no open call {command.call_id!r}", _open_ids(state))
            return (command,)
        case events.LlmError():
            return _error(state, command)
        case events.ModeSwitch():
            return _switch(state, command)
        case events.Unknown():
            raise UnsupportedVersionError(
                f"{command.topic} is unknown to this release, so it cannot be decided"
            )


def _illegal(command: events.Event, found: str, legal_now: str) -> IllegalCommandError:
    return IllegalCommandError(f"{command.kind}: {found}; legal now: {legal_now}")


def _check_listed(lane: LaneState, trigger: Trigger, command: events.Event) -> None:
    if trigger not in legal(lane.status):
        listed = ", ".join(legal(lane.status))
        raise _illegal(command, f"{trigger}, but lane {lane.address} is {lane.status}", listed)


def _check_replaces(state: State, command: events.UserMessage | events.AssistantMessage) -> None:
    replaces = command.replaces
    if replaces is not None and not 1 <= replaces <= state.position:
        raise _illegal(command, f"replaces position {replaces}", f"positions 1 to {state.position}")


def _open_ids(state: State) -> str:
    ids = ", ".join(repr(call.id) for _, call in state.open_calls())
    return f"a result for {ids}" if ids else "no result, for no call is open"


def _user(state: State, message: events.UserMessage) -> tuple[events.Event, ...]:
    """Return the events that record a user's message; an empty message records none.

    A message to a lane whose calls wait for approval refuses them.
    """
    _check_replaces(state, message)
    if message.control is not None:
        return _control(state, message.control, message)
    for where in addressed(state, message):
        _check_listed(state.lane(where), "asked", message)
    refused = refused_results(_refused_by(state, message))
    return (*refused, message) if message != events.UserMessage() else ()


def _refused_by(state: State, message: events.UserMessage) -> Iterator[OpenCall]:
    """Yield the calls that a person's words refuse: those that wait for an approval or an answer.

    These are calls of lanes that the words would ask, or that have the turn.
    """
    if message.author_kind != "person" or not message.parts:
        return
    for where in hearing(state, message):
        yield from (call for call in state.lane(where).calls if call.waits)


def _control(state: State, control: Control, command: events.UserMessage) -> tuple[events.Event, ...]:
    match control.action:
        case "approve" | "refuse":
            return _judge(state, control, command)
        case "ask" | "answer":
            return _question(state, control, command)
        case "cancel":
            # A lane at rest has nothing to stop, and an entry that stops nothing is not written.
            busy = [lane for lane in _able(state, control, "cancelled", command) if lane.status != "idle"]
            calls = (call for lane in busy for call in lane.calls)
            return (*not_run_results(calls, CANCELLED), command) if busy else ()
        case "continue":
            lanes = _able(state, control, "continued", command)
            # A lane that is about to call its model goes on by itself.
            halted = [lane for lane in lanes if lane.status != "awaiting_llm" or lane.retry_at is not None]
            return (command,) if halted else ()


def _able(state: State, control: Control, trigger: Trigger, command: events.Event) -> tuple[LaneState, ...]:
    """Return the lanes that a cancel or a continue is for; all of them must allow it."""
    lanes = control_targets(state, control)
    if not lanes:
        known = ", ".join(f"{lane.address} is {lane.status}" for lane in state.lanes.values()) or "no lane"
        raise _illegal(command, f"nothing to {control.action} ({known})", "to name a lane that is there")
    for lane in lanes:
        _check_listed(lane, trigger, command)
    return lanes


def _judge(state: State, control: Control, command: events.UserMessage) -> tuple[events.Event, ...]:
    """Return an approval or a refusal; a call that needs no approval cannot be refused."""
    found = named_call(state, control.call) if control.call is not None else None
    if control.arguments and (control.action != "approve" or not _is_json(control.arguments, dict)):
        raise _illegal(command, f"arguments {control.arguments:.100}", "a JSON object, of an approve")
    if found is not None and control.action == "refuse" and found[1].waits:
        return (command, *refused_results([found[1]]))
    if found is not None and control.action == "approve" and found[1].approval:
        return (command,)
    # Approved already, or in need of no approval: nothing is left to do.
    if found is not None and control.action == "approve" and not found[1].question:
        return ()
    if found is not None and found[1].question:
        raise _illegal(command, "approve of a call that asks a question", "to answer or refuse it")
    awaiting = [call for _, call in state.open_calls() if call.waits]
    names = ", ".join(f"{call.entry}[{call.nth}] {call.name}" for call in awaiting)
    raise _illegal(
        command,
        f"{control.action} of a call that awaits no approval",
        f"to approve or refuse {names}" if names else "neither, for no call awaits approval",
    )


def _question(state: State, control: Control, command: events.UserMessage) -> tuple[events.Event, ...]:
    """Return a tool's question, or the answer to it; `cause` may name the question that is meant."""
    found = named_call(state, control.call) if control.call is not None else None
    if control.action == "ask":
        if control.question is None or found is None or found[1].waits:
            raise _illegal(command, "ask of a call that does not run", "a question of an open call that runs")
        lane = found[0].address
        if (command.author_kind, command.author) != ("agent", lane):
            raise _illegal(command, f"ask by {command.author!r:.100}", f"by the call's own lane, {lane!r}")
        return (command,)
    asking = ", ".join(
        f"{call.entry}[{call.nth}] {call.name}" for _, call in state.open_calls() if call.question
    )
    legal_now = f"to answer {asking}, as JSON" if asking else "no answer, for no call asks"
    if found is None or not found[1].question:
        raise _illegal(command, "answer of a call that asks nothing", legal_now)
    if command.cause not in (None, found[1].question):
        what = f"answer to the question at {command.cause}, but the call asks the one at {found[1].question}"
        raise _illegal(command, what, legal_now)
    if not _is_json(control.answer):
        raise _illegal(command, f"answer {control.answer:.100}", legal_now)
    return (command,)


def _is_json(text: str, kind: type = object) -> bool:
    try:
        return isinstance(json.loads(text, parse_constant=_no_number), kind)
    except (ValueError, RecursionError):
        return False


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def refused_results(calls: Iterable[OpenCall]) -> tuple[events.ToolResult, ...]:
    """Return the results of calls that a person does not approve, or whose question nobody answers."""
    return tuple(
        result
        for call in calls
        for result in not_run_results([call], UNANSWERED if call.question else REFUSED)
    )


def not_run_results(calls: Iterable[OpenCall], text: str) -> tuple[events.ToolResult, ...]:
    """Return results that say why calls were not run, so that every call has exactly one."""
    return tuple(
        events.ToolResult(
            call_id=call.id,
            call=CallRef(entry=call.entry, index=call.nth),
            name=call.name,
            text=text,
            is_error=True,
        )
        for call in calls
    )


def _assistant(state: State, message: events.AssistantMessage) -> tuple[events.Event, ...]:
    _check_replaces(state, message)
    lane = state.lane(address(message.agent, message.task))
    # Summaries and memories move no lane, so they are legal at any time.
    if takes_turn(lane, message):
        _check_listed(lane, "answered", message)
    summary = summary_of(state.position + 1, message, state.summaries) if message.covers else None
    if summary and (wrong := cover_fault(state, summary)):
        raise _illegal(message, wrong, "spans of the past that hold closed calls and whole summaries")
    return (message,)


def _error(state: State, error: events.LlmError) -> tuple[events.Event, ...]:
    lane = state.lane(address(error.agent, error.task))
    cancelled = error.category == "cancelled" and error.retry_at is None
    _check_listed(lane, "cancelled" if cancelled else "erred", error)
    # Every call has exactly one result, also where its lane is stopped.
    return (*not_run_results(lane.calls, CANCELLED), error) if cancelled else (error,)


def _switch(state: State, switch: events.ModeSwitch) -> tuple[events.Event, ...]:
    strangers = [agent for agent in switch.leaves if agent not in state.members or agent in switch.joins]
    if strangers:
        raise _illegal(switch, f"{strangers} cannot leave", f"members {list(state.members)}")
    if isinstance(switch.turns, TurnPolicy) and (wrong := turns_fault(switch.turns)):
        raise _illegal(switch, wrong, f"a turn rule that is registered: {', '.join(TURN_RULES)}")
    # One behind the last position is legal: it takes all there is out of context.
    start = switch.context_from
    if isinstance(start, int) and not 1 <= start <= state.position + 1:
        raise _illegal(switch, f"context_from {start}", f"positions 1 to {state.position + 1}")
    for span in switch.hides if isinstance(switch.hides, tuple) else ():
        if not span.first <= span.last <= state.position:
            raise _illegal(switch, f"hides {span.first}-{span.last}", f"spans within 1 to {state.position}")
    # Their calls get results, since no runner would run them any more.
    gone = (lane for agent in dict.fromkeys(switch.leaves) for lane in state.lanes_of(agent))
    calls = (call for lane in gone for call in lane.calls)
    return (*not_run_results(calls, LEFT), switch) if switch != events.ModeSwitch() else ()
