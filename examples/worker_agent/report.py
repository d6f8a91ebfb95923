"""The terminal: each entry as it comes, what made it, how the history grows, what was decided."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import reduce
from textwrap import fill

from stenolog import (
    AssistantMessage,
    Conversation,
    Entry,
    LlmError,
    ModeSwitch,
    Request,
    State,
    ToolResult,
    UserMessage,
    step,
)
from stenolog.analysis import changes
from stenolog.context import Budget
from stenolog.engine import UsageByLane, delegated_usage, track_usage
from stenolog.events import CallRef, PositionRange, WorkflowRun

from .crew import BUDGET, CAREFUL, SHARE

COLUMNS = "{:>3}  {:>7}  {:<17}  {:<19}  {}"


async def follow(conversation: Conversation, work: AsyncIterator[Entry]) -> None:
    """Show what is there, then each entry as it comes, two lines for each; and how it has ended."""
    print(f"\n== {conversation.name} ==\n{COLUMNS.format('#', 'HISTORY', 'ENTRY', 'LANE', 'MADE FOR')}")
    await _follow(conversation, work, Steps().lines)
    print(f"ended: {_ended(conversation)}")


async def follow_summaries(conversation: Conversation, work: AsyncIterator[Entry]) -> None:
    """Show the summaries as they come, and what mere pruning would leave."""
    print(f"\n== {conversation.name} ==")
    await _follow(conversation, work, lambda entry: growth(conversation, entry))
    for line in pruned(conversation):
        print(fill(line, width(), subsequent_indent="    ", break_long_words=False))
    print(f"ended: {_ended(conversation)}")


async def _follow(
    conversation: Conversation, work: AsyncIterator[Entry], told: Callable[[Entry], Iterable[str]]
) -> None:
    shown = 0

    def catch_up() -> None:
        nonlocal shown
        for entry in conversation.entries(shown):
            shown = entry.position
            for line in told(entry):
                print(line, flush=True)

    catch_up()
    async for _ in work:
        catch_up()
    catch_up()


class Steps:
    """The steps of a conversation, folded from its entries: each is told when it is there."""

    def __init__(self) -> None:
        self._state = State()
        self._history = 0
        self._made: dict[str, int] = {}

    def lines(self, entry: Entry) -> Iterator[str]:
        """Yield an entry's position and cause, its words, and the decision after it."""
        self._state, transitions = step(self._state, entry)
        self._history += not isinstance(entry.event, ModeSwitch)
        self._made[entry.id] = entry.position
        lanes = ", ".join(filter(None, (which.lane for which in transitions)))
        row = (entry.position, self._history, entry.event.kind, lanes, self._made_for(entry))
        yield COLUMNS.format(*row).rstrip()
        decisions = [which.decision for which in transitions if which.lane]
        does = [f"{how.do} {how.reason or ', '.join(call.name for call in how.calls)}" for how in decisions]
        then = f"  → {', '.join(does).strip()}" if does else ""
        yield f"     {shortened(_words(entry), width() - 5 - len(then))}{then}"

    def _made_for(self, entry: Entry) -> str:
        """Return the position that was the cause; the run and its node."""
        match entry.event:
            case (
                AssistantMessage(cause=int(cause))
                | LlmError(cause=int(cause))
                | UserMessage(cause=int(cause))
            ):
                stamp = str(cause)
            case ToolResult(call=CallRef(entry=call)):
                stamp = str(self._made[call])
            case _:
                stamp = ""
        run = "/".join(filter(None, (getattr(entry.event, "run", ""), getattr(entry.event, "node", ""))))
        return f"{stamp} in {run}".strip() if run else stamp


def _words(entry: Entry) -> str:
    match entry.event:
        case ModeSwitch(active_run=run) as switch:
            node = f", node {run.node}" if isinstance(run, WorkflowRun) else ""
            return f"settings: {changes(switch)}{node}"
        case AssistantMessage(text=text, tool_calls=calls):
            return " ".join([*filter(None, [text]), *(f"{call.name}({call.arguments})" for call in calls)])
        case LlmError(message=message):
            return message
        case UserMessage(control=control, text=text):
            return control.action if control else text
        case event:
            return getattr(event, "text", "")


def width() -> int:
    """Return the width of the terminal."""
    return shutil.get_terminal_size().columns


def shortened(text: str, most: int) -> str:
    """Return a text in one line of so many characters at most."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: max(most, 9) - 1].rstrip()}…"


def _ended(conversation: Conversation) -> str:
    """Return the last words, or the reason of an error; a switch of settings ends nothing."""
    ends = [
        getattr(entry.event, "message", "") or getattr(entry.event, "text", "")
        for entry in conversation.entries()
    ]
    return shortened(next(filter(None, reversed(ends)), ""), width() - len("ended: "))


def family(conversation: Conversation) -> Iterator[str]:
    """Yield parent and child, each by the other's link, and the child's usage of its share."""
    accounts = reduce(track_usage, conversation.entries(at=_called(conversation)), UsageByLane())
    share = int(((BUDGET.max_tokens or 0) - accounts.lane("lead").total) * SHARE)
    for entry in conversation.entries():
        match entry.event:
            case ToolResult(meta={"stenolog": {"child": dict(child)}}) as result:
                used = sum(spent.input + spent.output for _, spent in delegated_usage(result))
                there = conversation.log[str(child["conversation"])]
                parent = there.settings().parent
                back = f"{parent.conversation}@{parent.position}" if parent else "its own lane"
                yield f"{conversation.name}@{entry.position} ← {child['lane']} in {there.name} ({back})"
                yield f"    used {used:,} of the {share:,} tokens of its share"
                yield f"    its result: {shortened(result.text, width() - 16)}"
            case _:
                pass


def _called(conversation: Conversation) -> int:
    """Return the positions at which the lead has called its workers."""
    calls = (e.position for e in conversation.entries() if getattr(e.event, "tool_calls", ()))
    return next(calls, conversation.position)


def growth(conversation: Conversation, entry: Entry) -> Iterator[str]:
    """Yield the summaries, with the entries that they replace and the size that this saves."""
    match entry.event:
        case AssistantMessage(purpose="summary", covers=spans):
            before, after = (
                conversation.request("librarian", at=entry.position - n, api="openai-chat") for n in (1, 0)
            )
            yield f"@{entry.position}: a summary for {_in_words(spans)}: {_size(before)} → {_size(after)}"
        case _:
            pass


def pruned(conversation: Conversation) -> Iterator[str]:
    """Yield the effect of a budget on the same conversation."""
    pruned = conversation.request("librarian", policy=Budget(tokens=600) | CAREFUL, api="openai-chat")
    gone = ", ".join(f"{run.first}-{run.last} ({run.rule})" for run in pruned.omissions)
    yield f"with a budget of 600 tokens besides: {_size(pruned)}; left out: {gone or 'nothing'}"
    yield "what stays: " + " … ".join(str(said["content"])[:60] for said in pruned.body["messages"][:2])


def _size(request: Request) -> str:
    return f"{request.size.tokens} tokens"


def _in_words(spans: Iterable[PositionRange]) -> str:
    return ", ".join(f"{span.first}-{span.last}" for span in spans)
