"""What the terminal shows: step by step what made each entry, how the history grows, what was decided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stenolog import (
    AssistantMessage,
    CallRef,
    Conversation,
    Entry,
    LlmError,
    ModeSwitch,
    Request,
    Span,
    State,
    ToolResult,
    UserMessage,
    step,
)
from stenolog.context import Budget
from stenolog.engine import spent_of

from .crew import CAREFUL

COLUMNS = "{:>3}  {:<17}  {:>7}  {:<18}  {:<10}  {}"


def table(talk: Conversation) -> Iterator[str]:
    """The steps of a conversation, folded once more from its log, and why it has ended."""
    yield f"\n== {talk.name} =="
    yield COLUMNS.format("#", "ENTRY", "HISTORY", "MADE BY", "LANE", "DECISION")
    state, history, made = State(), 0, dict[str, int]()
    for entry in talk.entries():
        state, transitions = step(state, entry)
        history += not isinstance(entry.event, ModeSwitch)
        made[entry.id] = entry.position
        for which in transitions:
            decision = which.decision
            calls = ", ".join(call.name for call in decision.calls)
            what = f"{decision.do} {decision.reason or calls}" if which.lane else ""
            row = (entry.position, entry.event.kind, history, _stamp(entry, made), which.lane[:10], what)
            yield COLUMNS.format(*row).rstrip()
    yield f"ended: {_ended(talk)}"


def _stamp(entry: Entry, made: dict[str, int]) -> str:
    """Which step made it: the run and its node, and the position that was the cause."""
    match entry.event:
        case AssistantMessage(cause=int(cause)) | LlmError(cause=int(cause)) | UserMessage(cause=int(cause)):
            stamp = f"for {cause}"
        case ToolResult(call=CallRef(entry=call)):
            stamp = f"for {made[call]}"
        case _:
            stamp = ""
    run = "/".join(filter(None, (getattr(entry.event, "run", ""), getattr(entry.event, "node", ""))))
    return f"{run} {stamp}".strip()


def _ended(talk: Conversation) -> str:
    """The reason of the last step that has one, or the last words."""
    *_, last = talk.entries()
    return getattr(last.event, "message", "") or getattr(last.event, "text", "")


def family(talk: Conversation) -> Iterator[str]:
    """Parent and child, each by the other's link, and what the child has used of its share."""
    for entry in talk.entries():
        match entry.event:
            case ToolResult(meta={"stenolog": {"child": dict(child)}}) as result:
                used = sum(spent.input + spent.output for spent in spent_of(result).values())
                there = talk.log[str(child["conversation"])]
                parent = there.settings().parent
                back = f"{parent.conversation}@{parent.position}" if parent else "its own lane"
                yield f"{talk.name}@{entry.position} ← {child['lane']} in {there.name} ({back})"
                yield f"    {used} tokens used of its share: {result.text}"
            case _:
                pass


def growth(talk: Conversation) -> Iterator[str]:
    """Where a summary took the place of what, what that saved, and what mere pruning would leave."""
    for entry in talk.entries():
        match entry.event:
            case AssistantMessage(purpose="summary", covers=spans):
                before, after = (talk.request("librarian", upto=entry.position - n) for n in (1, 0))
                yield f"@{entry.position}: a summary for {_in_words(spans)}: {_size(before)} → {_size(after)}"
            case _:
                pass
    pruned = talk.request("librarian", policy=Budget(tokens=600) | CAREFUL)
    gone = ", ".join(f"{run.first}-{run.last} {run.rule}" for run in pruned.dropped)
    yield f"with a budget of 600 tokens besides: {_size(pruned)}; left out: {gone or 'nothing'}"
    yield "what stays: " + " … ".join(str(said["content"])[:60] for said in pruned.body["messages"][:2])
    yield f"ended: {_ended(talk)}"


def _size(request: Request) -> str:
    return f"{request.size.tokens} tokens"


def _in_words(spans: Iterable[Span]) -> str:
    return ", ".join(f"{span.first}-{span.last}" for span in spans)
