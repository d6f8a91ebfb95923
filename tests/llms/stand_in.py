"""A server on this machine that answers as OpenAI and Anthropic do, for the examples and the docs.

It calls the tool that it is offered where it is asked about an umbrella, and then says what to do. A story
breaks off in the middle.
"""

from __future__ import annotations

import json
from typing import Any

from stenolog import TextPart
from stenolog.models import ModelResponse
from tests.llms import wire_openai_chat
from tests.llms.server import Received, Reply, Server, failure

KEY = "sk-test-0123456789abcdef"
CITY = {"city": "Kyiv"}
ADVICE = "Take an umbrella."
STORY = "Once upon a time it rained in Kyiv, and it rained on."
PIECE = len("Once upon a time")


def completion(text: str | None = None, calls: bool = False) -> dict[str, Any]:
    """Return an answer of Chat Completions: a text, or a call of `weather`."""
    function = {"name": "weather", "arguments": json.dumps(CITY)}
    call = {"tool_calls": [{"id": "c1", "type": "function", "function": function}]} if calls else {}
    message = {"role": "assistant", "content": text, **call}
    choice = {"index": 0, "finish_reason": "tool_calls" if calls else "stop", "message": message}
    used = {"prompt_tokens": 40, "completion_tokens": 5, "total_tokens": 45}
    made = {"id": "x", "object": "chat.completion", "created": 1, "model": "gpt-5.2"}
    return {**made, "choices": [choice], "usage": used}


def message(text: str | None = None, calls: bool = False) -> dict[str, Any]:
    """Return an answer of Anthropic Messages: a text, or a call of `weather`."""
    use = {"type": "tool_use", "id": "c1", "name": "weather", "input": CITY}
    content = [use if calls else {"type": "text", "text": text}]
    made = {"id": "m", "type": "message", "role": "assistant", "model": "claude-opus-5", "content": content}
    stop = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    return {**made, **stop, "usage": {"input_tokens": 40, "output_tokens": 5}}


def answered(request: Received) -> Reply:
    """Return the reply to a request, by its last message."""
    asked = request.body["messages"][-1]
    text = asked["content"] if isinstance(asked["content"], str) else asked["content"][-1].get("text", "")
    calls = asked["role"] == "user" and "umbrella" in text and "tools" in request.body
    told = STORY if "story" in text else "And so they took a boat." if "continue" in text else ADVICE
    if request.body.get("stream"):
        answer = ModelResponse((TextPart(text=told),), "gpt-5.2", "stop")
        frames = [*wire_openai_chat.frames(answer, PIECE)]
        return Reply(frames[:2], end="cut") if told == STORY else Reply(frames)
    made = message if request.path.endswith("/messages") else completion
    return failure(200, made(None if calls else told, calls))


def environment(server: Server) -> dict[str, str]:
    """Return the environment in which the SDKs ask this server."""
    keys = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    return {"OPENAI_BASE_URL": f"{server.url}/v1", "ANTHROPIC_BASE_URL": server.url, **keys}
