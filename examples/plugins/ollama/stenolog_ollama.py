"""The API of Ollama's `/api/chat`, with tools."""

from collections.abc import Mapping, Sequence
from typing import Any

from stenolog import ToolCall
from stenolog.requests import Api, BodyBuilder, Message, Prefix, Rendered, register_api, texts, tool_function


def render(messages: Sequence[Message], prefix: Prefix, blobs: Mapping[str, bytes]) -> Rendered:
    """Write the messages of a lane as a body, and explain each."""
    body = BodyBuilder(blobs, prefix.counter)
    if prefix.persona:
        body.messages.append({"role": "system", "content": prefix.persona})
        body.explain_persona(prefix, message=0)
    for message in messages:
        written: dict[str, Any] = {"role": message.role, "content": "\n".join(texts(message))}
        calls = [part for part in message.parts if isinstance(part, ToolCall)]
        if calls:
            written["tool_calls"] = [{"function": tool_function(call)} for call in calls]
        if message.role == "tool":
            written["tool_name"] = message.tool
        body.messages.append(written)
        body.explain(message, written["content"])
    tools = body.tools(prefix, lambda function: {"type": "function", "function": function})
    return body.rendered({"model": prefix.model, "messages": body.messages, "tools": tools})


register_api(Api("ollama", 1, render))
