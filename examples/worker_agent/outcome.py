"""The end of the example, from the log alone: comparable, without ids and times."""

from __future__ import annotations

from stenolog import AssistantMessage, Entry, LlmError, Log, ToolResult

PARTS = ("remembers", "stuck", "review", "walk", "library")


def outcome(log: Log) -> object:
    """Return each conversation's answers, results and reasons, and its children with their parents."""
    told = {name: [*filter(None, map(_told, log[name].entries()))] for name in PARTS}
    told["review"].sort()  # two workers are at work at once
    told["library"] = told["library"][-1:]  # when it was condensed depends on what a crash left
    return told | {"children": sorted({_child(log, name) for name in log if name not in PARTS})}


def _told(entry: Entry) -> str:
    match entry.event:
        case AssistantMessage(agent=agent, purpose="answer", text=text):
            return f"{agent}: {text}"
        case ToolResult(name=name, text=text):
            return f"{name} → {text}"
        case LlmError(category="budget", message=message):
            return f"ended: {message}"
        case _:
            return ""


def _child(log: Log, name: str) -> str:
    parent = log[name].settings().parent
    return f"{name.partition('~')[0]} of {parent.conversation if parent else 'nobody'}"
