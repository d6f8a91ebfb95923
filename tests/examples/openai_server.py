"""An OpenAI server for the programs: Chat Completions and Responses, streamed and whole.

It calls the first tool that it is offered, unless it has the result of one; it answers with the words it was
sent last, or with JSON of the schema that it was sent. The model `DOWN` fails, and so does a long request.
"""

from __future__ import annotations

import json
from typing import Any

from stenolog.events import Usage
from stenolog.models import ModelResponse
from stenolog.parts import AssistantPart, TextPart, ToolCall
from tests.llms import wire_openai_chat, wire_openai_responses
from tests.llms.server import JSON, Received, Reply, Server, failure

USED = Usage(input=12, output=3)
DOWN = "gpt-5.2-pro"
SLOWLY = "slowly"
"""A word in the last message by which the answer takes its time."""
LONGEST = 8_000
"""The number of characters of messages that a request may have."""


def openai_server() -> Server:
    """Return a server that answers every request."""
    return Server(answer)


def answer(request: Received) -> Reply:
    """Return the reply to a request."""
    body = request.body
    chat = request.path.endswith("/chat/completions")
    items = body["messages"] if chat else _items(body["input"])
    if body["model"] == DOWN:
        return failure(503, {"error": {"message": "The server is overloaded.", "code": "server_error"}})
    if len(json.dumps(items)) > LONGEST and body.get("truncation") != "auto":
        return failure(
            400, {"error": {"message": "The input is too long.", "code": "context_length_exceeded"}}
        )
    finish = "stop" if chat else "completed"
    response = ModelResponse((_part(body, items),), model=body["model"], finish_reason=finish, usage=USED)
    if body.get("stream"):
        wire: Any = wire_openai_chat if chat else wire_openai_responses
        return Reply(wire.frames(response), pause=0.05 if SLOWLY in json.dumps(items[-1]) else 0)
    whole = _completion(response) if chat else _response(response)
    return Reply([json.dumps(whole).encode()], headers=JSON)


def _items(given: str | list[Any]) -> list[Any]:
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def _part(body: dict[str, Any], items: list[Any]) -> AssistantPart:
    """Return the call of a tool that is offered, or the words that were said last."""
    tools = [tool.get("function", tool)["name"] for tool in body.get("tools") or ()]
    if tools and not _has_result(items):
        tool = body["tools"][0]
        schema = tool.get("function", tool).get("parameters") or {}
        return ToolCall(id="c1", name=tools[0], arguments=json.dumps(_of_schema(schema)))
    if schema := _schema(body):
        return TextPart(json.dumps(_of_schema(schema)))
    said = items[-1].get("content") or items[-1].get("output")
    return TextPart(said if isinstance(said, str) else said[0]["text"])


def _has_result(items: list[Any]) -> bool:
    """Return whether a tool has returned since the last answer that is a text."""
    for item in reversed(items):
        if item.get("role") == "tool" or item.get("type") == "function_call_output":
            return True
        if item.get("role") == "assistant" and item.get("content"):
            return False
    return False


def _schema(body: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the answer that is asked for; empty if any text will do."""
    format = body.get("response_format") or body.get("text", {}).get("format") or {}
    schema: dict[str, Any] = format.get("schema") or format.get("json_schema", {}).get("schema") or {}
    return schema


def _of_schema(schema: dict[str, Any]) -> Any:
    """Return a value of a schema, of required fields only."""
    match schema.get("type"):
        case "object":
            fields = schema.get("properties", {})
            return {name: _of_schema(fields[name]) for name in schema.get("required", ())}
        case "number" | "integer":
            return 1
        case "boolean":
            return True
        case _:
            return next(iter(schema.get("enum", ())), "Paris")


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
