"""An OpenAI server that tells the weather: Chat Completions and Responses, streamed and whole.

It calls the tool `weather`, or one that hands over, where it is offered and was not called since the last
message of a person; it answers with the words it was sent last.
"""

from __future__ import annotations

import json
from typing import Any

from stenolog.events import Usage
from stenolog.models import ModelResponse
from stenolog.parts import AssistantPart, TextPart, ToolCall
from tests.llms import wire_openai_chat, wire_openai_responses
from tests.llms.server import JSON, Received, Reply, Server

USED = Usage(input=12, output=3)


def openai_server() -> Server:
    """Return a server that answers every request."""
    return Server(answer)


def answer(request: Received) -> Reply:
    """Return the reply to a request."""
    body = request.body
    chat = request.path.endswith("/chat/completions")
    items = body["messages"] if chat else _items(body["input"])
    finish = "stop" if chat else "completed"
    response = ModelResponse((_part(body, items),), model=body["model"], finish_reason=finish, usage=USED)
    if body.get("stream"):
        wire: Any = wire_openai_chat if chat else wire_openai_responses
        return Reply(wire.frames(response))
    whole = _completion(response) if chat else _response(response)
    return Reply([json.dumps(whole).encode()], headers=JSON)


def _items(given: str | list[Any]) -> list[Any]:
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def _part(body: dict[str, Any], items: list[Any]) -> AssistantPart:
    """Return the call of a tool that is offered, or the words that were said last."""
    tools = [tool.get("function", tool)["name"] for tool in body.get("tools") or ()]
    result = items[-1].get("role") == "tool" or items[-1].get("type") == "function_call_output"
    if tools and not result:
        arguments = '{"city":"Paris"}' if tools == ["weather"] else "{}"
        return ToolCall(id="c1", name=tools[0], arguments=arguments)
    said = items[-1].get("content") or items[-1].get("output")
    return TextPart(said if isinstance(said, str) else said[0]["text"])


def _completion(response: ModelResponse) -> dict[str, Any]:
    (part,) = response.parts
    message: dict[str, Any] = {"role": "assistant", "content": getattr(part, "text", None)}
    if isinstance(part, ToolCall):
        function = {"name": part.name, "arguments": part.arguments}
        message["tool_calls"] = [{"id": part.id, "type": "function", "function": function}]
    reason = "tool_calls" if isinstance(part, ToolCall) else "stop"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": response.model,
        "choices": [{"index": 0, "finish_reason": reason, "message": message}],
        "usage": wire_openai_chat.usage(USED),
    }


def _response(response: ModelResponse) -> dict[str, Any]:
    (part,) = response.parts
    item: dict[str, Any] = {"id": "item_1", "status": "completed"}
    if isinstance(part, ToolCall):
        item |= {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": part.arguments}
    else:
        text: dict[str, Any] = {"type": "output_text", "text": getattr(part, "text", ""), "annotations": []}
        item |= {"type": "message", "role": "assistant", "content": [text]}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": response.model,
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 12,
            "output_tokens": 3,
            "total_tokens": 15,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }
