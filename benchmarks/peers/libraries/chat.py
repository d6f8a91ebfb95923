"""Messages as OpenAI's Chat API takes them, for stores that hold no form of their own."""

from __future__ import annotations

from typing import Any

from benchmarks.peers.workload import Event, Said


def message(event: Event) -> dict[str, Any]:
    """Return an event as a message."""
    match event.kind:
        case "user":
            return {"role": "user", "content": event.text}
        case "result":
            return {"role": "tool", "tool_call_id": event.answers, "content": event.text}
        case "calls":
            calls = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in event.calls
            ]
            return {"role": "assistant", "content": None, "tool_calls": calls}
        case "answer":
            return {"role": "assistant", "content": event.text}


def said(messages: list[dict[str, Any]]) -> list[Said]:
    """Return messages in the form that is compared."""
    return [_said(message) for message in messages]


def _said(message: dict[str, Any]) -> Said:
    match message:
        case {"role": "tool", "tool_call_id": id, "content": text}:
            return ("result", id, text)
        case {"tool_calls": [_, *_] as calls}:
            given = ((call["id"], call["function"]) for call in calls)
            return ("calls", *((id, function["name"], function["arguments"]) for id, function in given))
        case {"role": "user", "content": text}:
            return ("user", text)
        case _:
            return ("answer", message["content"])
