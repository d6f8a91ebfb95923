"""A report on a talk from its log: who passed, who was told all anew, what each was sent, what not, why."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from stenolog import AssistantMessage, Conversation, Entry, LlmError, ModeSwitch, Request, UserMessage
from stenolog.requests import RULES

from .role import PASS


def kept(conversation: Conversation) -> Iterator[str]:
    """Yield the messages in the log, with what the scribe has noted."""
    for event in (entry.event for entry in conversation.entries()):
        if isinstance(event, UserMessage):
            yield f"\n> {event.text}"
        elif isinstance(event, AssistantMessage) and event.purpose != "answer":
            yield f"({event.purpose} for {event.agent}: {event.text})"
        elif isinstance(event, AssistantMessage):
            yield f"{event.agent}: {event.text}" if event.text != PASS else f"({event.agent} passes)"
        elif isinstance(event, ModeSwitch) and isinstance(event.context_from, int):
            yield "\n(a new start for the agents)"


def report(conversation: Conversation) -> Iterator[str]:
    """Yield lines to print, of any length."""
    entries = [*conversation.entries()]
    end = conversation.state().turn_state.end_reason or "not yet"
    yield f"{len(entries)} entries. The turns are over: {end}."
    passed: dict[str, list[str]] = {}
    for at, event in ((entry.position, entry.event) for entry in entries):
        if isinstance(event, LlmError) and event.category == "process_exited":
            yield f"{event.agent} was told everything anew after {at}: {event.message}."
        elif isinstance(event, AssistantMessage) and event.text == PASS:
            passed.setdefault(event.agent, []).append(str(at))
    if passed:
        who = "; ".join(f"{agent} at {', '.join(positions)}" for agent, positions in passed.items())
        yield f"Passed, which the room does not show: {who}."
    begin = conversation.settings().context_from
    if last := last_requests(conversation, entries[: begin - 1] if begin else entries):
        yield f"\nWhat each was sent last{f' before the new start at {begin}' if begin else ''}, and why:"
    for agent, request in last.items():
        yield f"  {agent} at {request.at}: {', '.join(seen(request))}"
    if used := {run.rule for request in last.values() for run in request.omissions}:
        yield f"(Why not: {'; '.join(f'{rule}: {RULES[rule]}' for rule in sorted(used))})"
    for agent, request in [*last.items()][-1:]:
        options = (
            f"--agent {shlex.quote(agent)} --at {request.at} --db {shlex.quote(str(conversation.log.path))}"
        )
        yield f"Why? stenolog request {conversation.name} {options}"


def last_requests(conversation: Conversation, entries: list[Entry]) -> dict[str, Request]:
    """Return the last request of each agent, rebuilt from its answer's receipt."""
    events = [entry.event for entry in entries if isinstance(entry.event, AssistantMessage)]
    views = {event.agent: event.receipt.view for event in events if event.receipt}
    return {agent: conversation.request(agent, view, api="plain") for agent, view in views.items()}


def seen(request: Request) -> Iterator[str]:
    """Yield the size of a request, and the rules by which the other entries are left out."""
    shown = {position for part in request.parts if part.role != "system" for position in part.positions}
    rules = {part.rule for part in request.parts}
    yield "1 entry" if len(shown) == 1 else f"{len(shown)} entries"
    if "cut-note" in rules:
        yield "a note that some are missing"
    if "reminder" in rules:
        yield "its system prompt once more"
    for rule, first, last in ((run.rule, run.first, run.last) for run in request.omissions):
        yield f"not {first}{f'-{last}' if last > first else ''} ({rule})"
