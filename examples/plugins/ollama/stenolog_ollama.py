"""The API of Ollama's `/api/chat`, with tools."""

from collections.abc import Mapping, Sequence
from typing import Any

from stenolog import ToolCall, requests
from stenolog.requests import BodyBuilder, Message, Preamble, Rendered, parameters, texts, tool_function


def render(messages: Sequence[Message], preamble: Preamble, blobs: Mapping[str, bytes]) -> Rendered:
    """Write the messages of a lane as a body, and explain each."""
    body = BodyBuilder(blobs, preamble.counter)
    if preamble.persona:
        body.messages.append({"role": "system", "content": preamble.persona})
        body.explain_persona(preamble, message=0)
    for message in messages:
        written: dict[str, Any] = {"role": message.role, "content": "\n".join(texts(message))}
        if calls := [part for part in message.parts if isinstance(part, ToolCall)]:
            written["tool_calls"] = [{"function": tool_function(call)} for call in calls]
        if message.role == "tool":
            written["tool_name"] = message.tool
        body.messages.append(written)
        body.explain(message, written)
    tools = body.tools(preamble, lambda function: {"type": "function", "function": function})
    own = parameters(body, preamble, frozenset({"temperature", "top_p", "stop"}), lambda *_: None)
    return body.rendered({"model": preamble.model, "messages": body.messages, "tools": tools, "options": own})


requests.register_api(requests.Format("ollama", 1, render))
