"""Messages as LangChain and LangGraph hold them."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from benchmarks.peers.workload import Event, Said


def message(event: Event) -> AnyMessage:
    """Return an event as a message of LangChain."""
    match event.kind:
        case "user":
            return HumanMessage(event.text, id=event.id)
        case "result":
            return ToolMessage(event.text, id=event.id, tool_call_id=event.answers, name=event.tool)
        case "calls" | "answer":
            calls: list[Any] = [
                {"id": call.id, "name": call.name, "args": json.loads(call.arguments)} for call in event.calls
            ]
            return AIMessage(event.text, id=event.id, tool_calls=calls)


def read(message: AnyMessage) -> Said:
    """Return a message of LangChain as it is compared."""
    if isinstance(message, HumanMessage):
        return ("user", message.content)
    if isinstance(message, ToolMessage):
        return ("result", message.tool_call_id, message.content)
    calls = getattr(message, "tool_calls", [])
    if not calls:
        return ("answer", message.content)
    return ("calls", *((c["id"], c["name"], json.dumps(c["args"], ensure_ascii=False)) for c in calls))
