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
    made = Answered()
    events = [*_events(content)]
    match api:
        case "messages":
            _messages(made, events)
        case "chat":
            _chat(made, events)
        case "responses":
            _responses(made, events)
        case _:
            _gemini(made, events)
    return made


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


def _messages(made: Answered, events: list[dict[str, Any]]) -> None:
    blocks: list[dict[str, Any]] = []
    given = ""
    for event in events:
        match event.get("type"):
            case "message":
                made.id, blocks, made.complete = event["id"], event["content"], True
            case "message_start":
                made.id = event["message"]["id"]
            case "content_block_start":
                blocks.append(dict(event["content_block"]))
                given = ""
            case "content_block_delta":
                delta = event["delta"]
                if delta["type"] == "input_json_delta":
                    given += delta["partial_json"]
                else:
                    name = delta["type"].removesuffix("_delta")
                    blocks[-1][name] = blocks[-1].get(name, "") + delta[name]
            case "content_block_stop":
                if given:
                    blocks[-1]["input"] = json.loads(given)
            case "message_stop":
                made.complete = True
            case _:
                pass
    made.native = blocks
    for block in blocks:
        if block["type"] == "tool_use" and made.complete:
            made.calls.append(Call(block["id"], block["name"], json.dumps(block["input"])))
        made.text += block.get("text", "")


def _chat(made: Answered, events: list[dict[str, Any]]) -> None:
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    calls: dict[int, dict[str, Any]] = {}
    for event in events:
        made.id = event.get("id", made.id)
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or choice.get("message") or {}
            message["content"] += delta.get("content") or ""
            for nth, call in enumerate(delta.get("tool_calls") or ()):
                index = call.get("index", nth)
                function = call.get("function") or {}
                known = calls.setdefault(index, {"id": "", "type": "function", "function": {}})
                known["id"] = call.get("id") or known["id"]
                if function.get("name"):
                    known["function"] = {"name": function["name"], "arguments": ""}
                known["function"]["arguments"] += function.get("arguments") or ""
            made.complete = made.complete or bool(choice.get("finish_reason"))
    if calls:
        message["tool_calls"] = [*calls.values()]
    made.native, made.text = [message], message["content"]
    if made.complete:
        made.calls = [Call(one["id"], **one["function"]) for one in calls.values()]


def _responses(made: Answered, events: list[dict[str, Any]]) -> None:
    for event in events:
        response = event if event.get("object") == "response" else event.get("response") or {}
        made.id = response.get("id", made.id)
        if event.get("type") == "response.output_text.delta":
            made.text += event["delta"]
        if response.get("status") == "completed":
            made.native, made.complete = response["output"], True
    for item in made.native:
        if item["type"] == "function_call":
            made.calls.append(Call(item["call_id"], item["name"], item["arguments"]))


def _gemini(made: Answered, events: list[dict[str, Any]]) -> None:
    parts: list[dict[str, Any]] = []
    for event in events:
        made.id = event.get("responseId", made.id)
        for candidate in event.get("candidates") or ():
            for part in candidate["content"]["parts"]:
                if parts and "text" in part and "text" in parts[-1]:
                    is_same = part.get("thought") == parts[-1].get("thought")
                    if is_same:
                        parts[-1] = {**parts[-1], "text": parts[-1]["text"] + part["text"]}
                        continue
                parts.append(part)
            made.complete = made.complete or "finishReason" in candidate
    made.native = [{"role": "model", "parts": parts}]
    for part in parts:
        if "functionCall" in part and made.complete:
            call = part["functionCall"]
            made.calls.append(Call(call.get("id", ""), call["name"], json.dumps(call["args"])))
        if not part.get("thought"):
            made.text += part.get("text", "")
