"""Answers as clients read them: the events of a stream folded into what the next request repeats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Call(NamedTuple):
    """A call of a tool; `arguments` is JSON, as it came."""

    id: str
    name: str
    arguments: str


@dataclass
class Answered:
    """An answer: `native` is what the API's next request repeats of it. Not `complete`: it broke off."""

    native: list[dict[str, Any]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    text: str = ""
    id: str = ""
    complete: bool = False


def answered(api: str, content: bytes) -> Answered:
    """Read a decoded answer, whole or a stream."""
    built = Answered()
    events = [*_events(content)]
    match api:
        case "messages":
            _messages(built, events)
        case "chat":
            _chat(built, events)
        case "responses":
            _responses(built, events)
        case _:
            _gemini(built, events)
    return built


def _events(content: bytes) -> Iterator[dict[str, Any]]:
    if content[:1] in (b"{", b"["):
        try:
            yield json.loads(content)
        except ValueError:
            return
    for line in content.decode("utf-8", "replace").splitlines():
        if line.startswith("data: {"):
            try:
                yield json.loads(line[6:])
            except ValueError:
                return


def _messages(built: Answered, events: list[dict[str, Any]]) -> None:
    blocks: list[dict[str, Any]] = []
    supplied = ""
    for event in events:
        match event.get("type"):
            case "message":
                built.id, blocks, built.complete = event["id"], event["content"], True
            case "message_start":
                built.id = event["message"]["id"]
            case "content_block_start":
                blocks.append(dict(event["content_block"]))
                supplied = ""
            case "content_block_delta":
                delta = event["delta"]
                if delta["type"] == "input_json_delta":
                    supplied += delta["partial_json"]
                else:
                    name = delta["type"].removesuffix("_delta")
                    blocks[-1][name] = blocks[-1].get(name, "") + delta[name]
            case "content_block_stop":
                if supplied:
                    blocks[-1]["input"] = json.loads(supplied)
            case "message_stop":
                built.complete = True
            case _:
                pass
    built.native = blocks
    for block in blocks:
        if block["type"] == "tool_use" and built.complete:
            built.calls.append(Call(block["id"], block["name"], json.dumps(block["input"])))
        built.text += block.get("text", "")


def _chat(built: Answered, events: list[dict[str, Any]]) -> None:
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    calls: dict[int, dict[str, Any]] = {}
    for event in events:
        built.id = event.get("id", built.id)
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or choice.get("message") or {}
            message["content"] += delta.get("content") or ""
            for nth, call in enumerate(delta.get("tool_calls") or ()):
                index = call.get("index", nth)
                function = call.get("function") or {}
                entry = calls.setdefault(index, {"id": "", "type": "function", "function": {}})
                entry["id"] = call.get("id") or entry["id"]
                if function.get("name"):
                    entry["function"] = {"name": function["name"], "arguments": ""}
                entry["function"]["arguments"] += function.get("arguments") or ""
            built.complete = built.complete or bool(choice.get("finish_reason"))
    if calls:
        message["tool_calls"] = [*calls.values()]
    built.native, built.text = [message], message["content"]
    if built.complete:
        built.calls = [Call(one["id"], **one["function"]) for one in calls.values()]


def _responses(built: Answered, events: list[dict[str, Any]]) -> None:
    for event in events:
        response = event if event.get("object") == "response" else event.get("response") or {}
        built.id = response.get("id", built.id)
        if event.get("type") == "response.output_text.delta":
            built.text += event["delta"]
        if response.get("status") == "completed":
            built.native, built.complete = response["output"], True
    for item in built.native:
        if item["type"] == "function_call":
            built.calls.append(Call(item["call_id"], item["name"], item["arguments"]))


def _gemini(built: Answered, events: list[dict[str, Any]]) -> None:
    parts: list[dict[str, Any]] = []
    for event in events:
        built.id = event.get("responseId", built.id)
        for candidate in event.get("candidates") or ():
            for part in candidate["content"]["parts"]:
                if parts and "text" in part and "text" in parts[-1]:
                    is_same = part.get("thought") == parts[-1].get("thought")
                    if is_same:
                        parts[-1] = {**parts[-1], "text": parts[-1]["text"] + part["text"]}
                        continue
                parts.append(part)
            built.complete = built.complete or "finishReason" in candidate
    built.native = [{"role": "model", "parts": parts}]
    for part in parts:
        if "functionCall" in part and built.complete:
            call = part["functionCall"]
            built.calls.append(Call(call.get("id", ""), call["name"], json.dumps(call["args"])))
        if not part.get("thought"):
            built.text += part.get("text", "")
