"""May this happen now? `decide` refuses what is illegal, and completes what is legal.

A command is the event that somebody wants to record. The events that come back are to be appended
together, at the position that the state stands at.
"""

from __future__ import annotations

from .errors import IllegalCommand, LaterRelease
from .events import UNCHANGED, AssistantMessage, Event, LlmError, ModeSwitch, ToolResult, Unknown, UserMessage
from .lifecycle import Trigger, legal
from .state import Lane, OpenCall, State, address, blocked_reason
from .step import find_call
from .values import CallRef, Control

REFUSED = "The user refused this call; it was not run."
CANCELLED = "Cancelled by the user before a result was there."


def decide(state: State, command: Event) -> tuple[Event, ...]:
    """The events that record the command.

    Raises `IllegalCommand`, naming the state, the command and what would be legal, and `LaterRelease`
    where the log holds an event that only a later release understands.
    """
    if state.blocked is not None:
        raise LaterRelease(blocked_reason(state.blocked))
    match command:
        case UserMessage(control=control):
            _check_replaces(state, command.replaces, command)
            return (command,) if control is None else _control(state, control, command)
        case AssistantMessage(purpose="answer"):
            _check_replaces(state, command.replaces, command)
            return _if_listed(state.lane(address(command.agent, command.task)), "answered", command)
        case AssistantMessage():
            _check_covers(state, command)
            return (command,)
        case ToolResult():
            if find_call(state, command) is None:
                raise _illegal(command, f"no open call {command.call_id!r}", _open_ids(state))
            return (command,)
        case LlmError():
            trigger: Trigger = "cancelled" if command.category == "cancelled" else "erred"
            return _if_listed(state.lane(address(command.agent, command.task)), trigger, command)
        case ModeSwitch():
            _check_switch(state, command)
            return (command,)
        case Unknown():
            raise LaterRelease(f"{command.topic} is unknown to this release, so it cannot be decided")


def _illegal(command: Event, found: str, legal_now: str) -> IllegalCommand:
    return IllegalCommand(f"{command.kind}: {found}; legal now: {legal_now}")


def _if_listed(lane: Lane, trigger: Trigger, command: Event) -> tuple[Event, ...]:
    if trigger not in legal(lane.status):
        raise _illegal(command, f"lane {lane.address} is {lane.status}", ", ".join(legal(lane.status)))
    return (command,)


def _open_ids(state: State) -> str:
    ids = ", ".join(repr(call.id) for _, call in state.open_calls())
    return f"a result for {ids}" if ids else "no result, for no call is open"


def _control(state: State, control: Control, command: UserMessage) -> tuple[Event, ...]:
    if control.action in ("approve", "refuse"):
        call = _awaiting(state, control, command)
        return (command, _unrun(call, REFUSED)) if control.action == "refuse" else (command,)
    trigger: Trigger = "cancelled" if control.action == "cancel" else "continued"
    lanes = [lane for lane in state.lanes.values() if control.agent in ("", lane.agent)]
    lanes = [lane for lane in lanes if not control.agent or lane.task == control.task]
    able = [lane for lane in lanes if trigger in legal(lane.status)]
    if not able:
        known = ", ".join(f"{lane.address} is {lane.status}" for lane in state.lanes.values()) or "no lane"
        raise _illegal(command, f"nothing to {control.action} ({known})", "a user_message")
    if control.action == "continue":
        return (command,)
    return (*(_unrun(call, CANCELLED) for lane in able for call in lane.calls), command)


def _awaiting(state: State, control: Control, command: UserMessage) -> OpenCall:
    awaiting = [call for _, call in state.open_calls() if call.approval]
    for call in awaiting:
        if control.call == CallRef(entry=call.entry, index=call.nth):
            return call
    names = ", ".join(f"{call.entry}[{call.nth}] {call.name}" for call in awaiting) or "none awaits approval"
    raise _illegal(command, f"{control.action} of a call that awaits no approval", names)


def _unrun(call: OpenCall, text: str) -> ToolResult:
    return ToolResult(
        call_id=call.id,
        call=CallRef(entry=call.entry, index=call.nth),
        name=call.name,
        text=text,
        is_error=True,
    )


def _check_replaces(state: State, replaces: int | None, command: Event) -> None:
    if replaces is not None and not 1 <= replaces <= state.position:
        raise _illegal(command, f"replaces position {replaces}", f"positions 1 to {state.position}")


def _check_covers(state: State, summary: AssistantMessage) -> None:
    for span in summary.covers:
        if span.last > state.position or span.first > span.last:
            raise _illegal(summary, f"covers {span.first}-{span.last}", f"spans within 1 to {state.position}")
        for _, call in state.open_calls():
            if call.position in span:
                raise _illegal(
                    summary, f"covers the open call {call.id!r} at {call.position}", "closed calls"
                )
        for first, last in state.summaries:
            inside = span.first <= first and last <= span.last
            apart = last < span.first or span.last < first
            if not inside and not apart:
                raise _illegal(
                    summary,
                    f"covers {span.first}-{span.last}, part of the summary of {first}-{last}",
                    "a span that holds that summary's whole, or nothing of it",
                )


def _check_switch(state: State, switch: ModeSwitch) -> None:
    strangers = [agent for agent in switch.leaves if agent not in state.members]
    if strangers:
        raise _illegal(switch, f"{strangers} cannot leave", f"members {list(state.members)}")
    start = switch.context_from
    if isinstance(start, int) and not 1 <= start <= state.position + 1:
        raise _illegal(switch, f"context_from {start}", f"positions 1 to {state.position + 1}")
    hides = () if switch.hides is UNCHANGED or switch.hides is None else switch.hides
    for span in hides:
        if span.last > state.position:
            raise _illegal(switch, f"hides {span.first}-{span.last}", f"spans within 1 to {state.position}")
