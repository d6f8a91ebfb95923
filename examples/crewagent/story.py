"""The log, told: each entry in a line or two, and for each request what it began with and what it cost."""

from __future__ import annotations

from collections.abc import Iterator

from stenolog import (
    AssistantMessage,
    Conversation,
    Entry,
    LlmError,
    ModeSwitch,
    Receipt,
    Run,
    ToolResult,
    UserMessage,
)

AROUND = ("base-rules", "tool-policy")
"""What every request begins with."""


def told(talk: Conversation, entry: Entry) -> Iterator[str]:
    """An entry, as a person is told of it."""
    match entry.event:
        case ModeSwitch(mode=str(mode), active_run=run):
            where = f", {run.id}, node {run.node}" if isinstance(run, Run) else ""
            yield f"\n── {mode} mode{where}"
        case UserMessage(text=text, author=author):
            yield f"{author or 'user'}: {text}"
        case AssistantMessage(text=text, receipt=receipt) as said:
            yield from _request(talk, receipt)
            yield from (f"crew: {line}" for line in text.splitlines())
            yield from (f"crew calls {call.name} {_short(call.arguments)}" for call in said.tool_calls)
        case LlmError(category=category, message=message, text=text, receipt=receipt):
            yield from _request(talk, receipt)
            yield f"crew: {text} ✂ {category}: {message}"
        case ToolResult(name=name, blob=blob) as result:
            kept = f", kept whole as {_alias(entry)}" if blob else ""
            yield f"  {name} gives {_size(talk, entry):,} characters{kept}: {_short(result.text)}"
        case _:
            pass


def _request(talk: Conversation, receipt: Receipt | None) -> Iterator[str]:
    """The request of an answer, built again: what was put around the conversation, its size, its cut."""
    if receipt is None:
        return
    request = talk.request("crew", receipt.view)
    around = [part.rule for part in request.parts if part.role == "system" and part.rule not in AROUND]
    yield f"  … sent {request.size.messages} messages, {request.size.tokens} tokens: {', '.join(around)}"
    for part in request.parts:
        if part.rule == "compact":
            whole = next(talk.entries(part.positions[0] - 1))
            yield f"  … of {_size(talk, whole):,} characters of output it was shown {part.tokens_out} tokens"
    for run in request.dropped:
        if run.rule == "over-budget":
            yield f"  … without {run.first} to {run.last}, {run.tokens} tokens: {run.rule}"


def _alias(entry: Entry) -> str:
    return f"@state/logs/tool-results/{entry.id}.json"


def _size(talk: Conversation, entry: Entry) -> int:
    return len(talk.outputs[_alias(entry)])


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 70 else f"{line[:70]} …"
