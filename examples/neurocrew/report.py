"""What the log knows of a talk: who was told everything anew, what each role was sent, what not, and why."""

from __future__ import annotations

from collections.abc import Iterator

from stenolog import AssistantMessage, Conversation, LlmError, Request


def report(talk: Conversation) -> Iterator[str]:
    """Lines to print."""
    begin = talk.settings().context_from or talk.position + 1
    yield f"{talk.position} entries. The turns are over: {talk.state().floor.ended}."
    views: dict[str, list[int]] = {}
    for entry in talk.entries():
        match entry.event:
            case LlmError(agent=agent, category="process_exited", message=message):
                yield f"  {agent} is told everything anew: {message}"
            case AssistantMessage(agent=agent, receipt=receipt) if receipt and entry.position < begin:
                views.setdefault(agent, []).append(receipt.view)
    yield "What each was sent last before the new start, by a policy of its own:"
    for agent, asked in views.items():
        requests = [talk.request(agent, view, wire="plain") for view in asked]
        yield f"  {agent:<19} {seen(requests[-1])}"
        for request in requests:
            if "reminder" in rules(request):
                yield f"{'':<21} reminded of its system prompt at {request.upto}"
    yield f"Why? stenolog request {talk.name} --agent 'Product Owner' --at 16 --db {talk.log.path}"


def seen(request: Request) -> str:
    """What stands in a request, and by which rule the rest does not."""
    shown = {position for part in request.parts if part.role != "system" for position in part.positions}
    left_out = " ".join(f"{run.first}-{run.last} ({run.rule})" for run in request.dropped)
    told = " and told that some are missing" if "cut-note" in rules(request) else ""
    return f"{len(shown)} entries{told}; not {left_out or 'left out: any'}"


def rules(request: Request) -> set[str]:
    """The rules that put something into it."""
    return {part.rule for part in request.parts}
