"""A program's side of a conversation in each of the four APIs: its history, and the bodies that it sends."""

from __future__ import annotations

import copy
import json
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any

from tests.tap.answered import Answered, Call
from tests.tap.reading import prose

PIXELS = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 24
"""What stands for a picture."""
Json = dict[str, Any]


def tool(name: str, description: str, **parameters: str) -> Json:
    """Return a tool as all APIs are given it: name, description and a schema."""
    properties = {key: {"type": kind, "description": f"The {key}."} for key, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": [*parameters][:1]}
    return {"name": name, "description": description, "schema": schema}


@dataclass
class Dialogue:
    """A conversation as a program keeps it. Subclasses know the form of one API."""

    model: str
    system: list[str]
    tools: list[Json]
    stream: bool = True
    history: list[Json] = field(default_factory=list)
    extra: Json = field(default_factory=dict)
    caches: bool = False

    api = ""
    path = ""

    def copied(self) -> Dialogue:
        """Return a conversation of its own that has gone the same way so far."""
        return copy.deepcopy(self)

    def say(self, text: str, picture: bool = False) -> None:
        """Add a user's message."""
        raise NotImplementedError

    def take(self, answer: Answered) -> None:
        """Add an answer."""
        self.history += answer.native

    def results(self, calls: list[tuple[Call, str]]) -> None:
        """Add the results of calls."""
        raise NotImplementedError

    def body(self) -> Json:
        """Return the body of the next request."""
        raise NotImplementedError

    def empty_results(self, number: int) -> None:
        """Empty the oldest results of tools, as programs do to make room."""

    def edit(self, nth: int) -> None:
        """Rewrite the text of an old message."""
        raise NotImplementedError


class Claude(Dialogue):
    """Messages of Anthropic. With `caches` the end of each request is a breakpoint, which moves."""

    api, path = "messages", "/v1/messages?beta=true"

    def say(self, text: str, picture: bool = False) -> None:
        content: list[Json] = [{"type": "text", "text": text}]
        if picture:
            data = b64encode(PIXELS + text.encode()).decode()
            source = {"type": "base64", "media_type": "image/png", "data": data}
            content.append({"type": "image", "source": source})
        self.history.append({"role": "user", "content": content if picture or self.caches else text})

    def remind(self, text: str) -> None:
        """Add a reminder of the program's own, in the middle of the messages."""
        self.history.append({"role": "system", "content": text})

    def take(self, answer: Answered) -> None:
        if answer.native:
            self.history.append({"role": "assistant", "content": answer.native})

    def results(self, calls: list[tuple[Call, str]]) -> None:
        content = [{"tool_use_id": call.id, "type": "tool_result", "content": text} for call, text in calls]
        self.history.append({"role": "user", "content": content})

    def body(self) -> Json:
        messages = copy.deepcopy(self.history) if self.caches else [*self.history]
        system: Any = [{"type": "text", "text": text} for text in self.system]
        if self.caches:
            mark = {"type": "ephemeral"}
            system[-1]["cache_control"] = mark
            last = next(one for one in reversed(messages) if isinstance(one["content"], list))
            last["content"][-1]["cache_control"] = mark
        tools = [
            {"name": one["name"], "description": one["description"], "input_schema": one["schema"]}
            for one in self.tools
        ]
        built = {"model": self.model, "messages": messages, "system": system, "tools": tools}
        built |= {"max_tokens": 32000, **self.extra}
        if not tools:
            del built["tools"]
        return built | ({"stream": True} if self.stream else {})

    def empty_results(self, number: int) -> None:
        results = [
            block
            for message in self.history
            if isinstance(message["content"], list)
            for block in message["content"]
            if block["type"] == "tool_result"
        ]
        for block in results[:number]:
            block["content"] = "[Old tool result content cleared]"

    def edit(self, nth: int) -> None:
        mine = [message for message in self.history if message["role"] == "user"]
        message = mine[min(nth, len(mine) - 1)]
        if isinstance(message["content"], str):
            message["content"] += " (edited)"
        else:
            block = next((one for one in message["content"] if one["type"] == "text"), None)
            if block is not None:
                block["text"] += " (edited)"


class Chat(Dialogue):
    """Chat Completions of OpenAI."""

    api, path = "chat", "/chat/completions"

    def say(self, text: str, picture: bool = False) -> None:
        content: Any = text
        if picture:
            url = f"data:image/png;base64,{b64encode(PIXELS + text.encode()).decode()}"
            content = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}]
        self.history.append({"role": "user", "content": content})

    def results(self, calls: list[tuple[Call, str]]) -> None:
        self.history += [{"role": "tool", "tool_call_id": call.id, "content": text} for call, text in calls]

    def body(self) -> Json:
        system = [{"role": "system", "content": text} for text in self.system]
        functions = [
            {
                "type": "function",
                "function": {
                    "name": one["name"],
                    "description": one["description"],
                    "parameters": one["schema"],
                },
            }
            for one in self.tools
        ]
        built = {"model": self.model, **self.extra, "messages": [*system, *self.history]}
        built |= {"tools": functions} if functions else {}
        return built | ({"stream": True, "stream_options": {"include_usage": True}} if self.stream else {})

    def empty_results(self, number: int) -> None:
        results = [message for message in self.history if message["role"] == "tool"]
        for message in results[:number]:
            message["content"] = ""

    def edit(self, nth: int) -> None:
        mine = [message for message in self.history if message["role"] == "user"]
        message = mine[min(nth, len(mine) - 1)]
        if isinstance(message["content"], str):
            message["content"] += " (edited)"


class Responses(Dialogue):
    """Responses of OpenAI. With `extra` of `store` only what is new is sent, after the stored response."""

    api, path = "responses", "/responses"

    def say(self, text: str, picture: bool = False) -> None:
        content: list[Json] = [{"type": "input_text", "text": text}]
        if picture:
            url = f"data:image/png;base64,{b64encode(PIXELS + text.encode()).decode()}"
            content.append({"type": "input_image", "image_url": url})
        self.history.append({"type": "message", "role": "user", "content": content})

    def take(self, answer: Answered) -> None:
        if self.extra.get("store"):
            self.history.clear()
            self.extra["previous_response_id"] = answer.id
            return
        for item in answer.native:
            trimmed = {key: value for key, value in item.items() if key not in ("id", "status")}
            if trimmed["type"] == "message":
                text = trimmed["content"][0]["text"]
                trimmed["content"] = [{"type": "output_text", "text": text}]
            self.history.append(trimmed)

    def results(self, calls: list[tuple[Call, str]]) -> None:
        self.history += [
            {"type": "function_call_output", "call_id": call.id, "output": text} for call, text in calls
        ]

    def body(self) -> Json:
        tools = [
            {
                "type": "function",
                "name": one["name"],
                "description": one["description"],
                "strict": False,
                "parameters": one["schema"],
            }
            for one in self.tools
        ]
        built = {"model": self.model, "instructions": "\n\n".join(self.system), "input": [*self.history]}
        built |= {"tools": tools, "tool_choice": "auto"} if tools else {}
        return built | self.extra | ({"stream": True} if self.stream else {})

    def empty_results(self, number: int) -> None:
        results = [item for item in self.history if item["type"] == "function_call_output"]
        for item in results[:number]:
            item["output"] = "[cleared]"

    def edit(self, nth: int) -> None:
        mine = [item for item in self.history if item.get("role") == "user"]
        if mine:
            mine[min(nth, len(mine) - 1)]["content"][0]["text"] += " (edited)"


class Gemini(Dialogue):
    """`generateContent` of Gemini."""

    api = "gemini"

    @property
    def path(self) -> str:  # type: ignore[override]
        end = ":streamGenerateContent?alt=sse" if self.stream else ":generateContent"
        return f"/v1beta/models/{self.model}{end}"

    def say(self, text: str, picture: bool = False) -> None:
        parts: list[Json] = [{"text": text}]
        if picture:
            data = b64encode(PIXELS + text.encode()).decode()
            parts.append({"inlineData": {"mimeType": "image/png", "data": data}})
        self.history.append({"role": "user", "parts": parts})

    def results(self, calls: list[tuple[Call, str]]) -> None:
        parts = [
            {"functionResponse": {"id": call.id, "name": call.name, "response": {"output": text}}}
            for call, text in calls
        ]
        self.history.append({"role": "user", "parts": parts})

    def body(self) -> Json:
        declared = [
            {"name": one["name"], "description": one["description"], "parametersJsonSchema": one["schema"]}
            for one in self.tools
        ]
        built: Json = {"contents": [*self.history]}
        built["systemInstruction"] = {"role": "user", "parts": [{"text": text} for text in self.system]}
        built |= {"tools": [{"functionDeclarations": declared}]} if declared else {}
        return built | {"generationConfig": {"temperature": 1, "topP": 0.95, **self.extra}}

    def empty_results(self, number: int) -> None:
        results = [
            part["functionResponse"]
            for content in self.history
            for part in content["parts"]
            if "functionResponse" in part
        ]
        for result in results[:number]:
            result["response"] = {"output": "[cleared]"}

    def edit(self, nth: int) -> None:
        mine = [one for one in self.history if one["role"] == "user" and "text" in one["parts"][0]]
        mine[min(nth, len(mine) - 1)]["parts"][0]["text"] += " (edited)"


def result_of(call: Call, seed: str, length: int) -> str:
    """Return what a tool answers."""
    try:
        supplied = json.loads(call.arguments)
    except ValueError:
        supplied = {}
    first = str(next(iter(supplied.values()), ""))[:80]
    return f"$ {first}\n{prose(seed + call.id, length)}\nexit 0"
