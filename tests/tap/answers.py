"""Answers of a scripted model in the four APIs: as a stream of server-sent events, or whole."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tests.tap.prefix_cache import Used
from tests.tap.reading import Plan

EVENTS = "text/event-stream; charset=utf-8"
CREATED = 1_790_000_000
TEXT_PIECE, ARGUMENTS_PIECE = 9, 17
"""Characters of a delta."""


class Order(NamedTuple):
    """An answer to write: the request's body, the plan, the tokens, and a number that no other answer has."""

    body: dict[str, Any]
    plan: Plan
    used: Used
    number: str
    model: str
    tools: Mapping[str, dict[str, Any]] = {}

    @property
    def output(self) -> int:
        calls = sum(len(json.dumps(supplied)) for _, supplied in self.plan.calls)
        return 1 + (len(self.plan.think) + len(self.plan.text) + calls) // 4


def pieces(text: str, size: int) -> list[str]:
    """Return a text in pieces of so many characters; one of an empty text."""
    return [text[start : start + size] for start in range(0, len(text), size)] or [""]


def event(value: dict[str, Any], *, end: str = "\n", ascii: bool = False) -> bytes:
    """Return a value as a server-sent event, with a name where it has a type."""
    name = f"event: {value['type']}{end}" if "type" in value else ""
    data = json.dumps(value, ensure_ascii=ascii, separators=(",", ":"))
    return f"{name}data: {data}{end}{end}".encode()


def as_json(value: dict[str, Any], indent: int | None = None) -> bytes:
    """Return a value as an answer that is no stream."""
    return json.dumps(value, ensure_ascii=False, indent=indent).encode()


def messages(order: Order) -> list[bytes]:
    """Return the answer of Anthropic's Messages."""
    body, plan, used, number, model, _ = order
    usage = {
        "input_tokens": used.fresh,
        "cache_creation_input_tokens": used.written,
        "cache_read_input_tokens": used.read,
        "cache_creation": {"ephemeral_5m_input_tokens": used.written, "ephemeral_1h_input_tokens": 0},
        "service_tier": "standard",
    }
    content: list[dict[str, Any]] = []
    if plan.think:
        content.append({"type": "thinking", "thinking": plan.think, "signature": secret(number)})
    if plan.text:
        content.append({"type": "text", "text": plan.text})
    for nth, (name, supplied) in enumerate(plan.calls):
        content.append({"type": "tool_use", "id": f"toolu_{number}{nth}", "name": name, "input": supplied})
    base = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model}
    stop = {"stop_reason": "tool_use" if plan.calls else "end_turn", "stop_sequence": None}
    if not body.get("stream"):
        return [
            as_json({**base, "content": content, **stop, "usage": {**usage, "output_tokens": order.output}})
        ]
    none = {"stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}
    events = [event({"type": "message_start", "message": {**base, "content": [], **none}})]
    for nth, block in enumerate(content):
        events += [event({**one, "index": nth}) for one in _block(block)]
        if nth == 0:
            events.append(event({"type": "ping"}))
    end = {"type": "message_delta", "delta": stop, "usage": {**usage, "output_tokens": order.output}}
    return [*events, event(end), event({"type": "message_stop"})]


def _block(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    empty: dict[str, Any]
    match block["type"]:
        case "text":
            empty, deltas = (
                {"text": ""},
                [("text_delta", "text", one) for one in pieces(block["text"], TEXT_PIECE)],
            )
        case "thinking":
            empty = {"thinking": "", "signature": ""}
            deltas = [("thinking_delta", "thinking", one) for one in pieces(block["thinking"], TEXT_PIECE)]
            deltas.append(("signature_delta", "signature", block["signature"]))
        case _:
            empty = {"input": {}}
            supplied = json.dumps(block["input"], ensure_ascii=False)
            deltas = [
                ("input_json_delta", "partial_json", one) for one in ["", *pieces(supplied, ARGUMENTS_PIECE)]
            ]
    yield {"type": "content_block_start", "content_block": {**block, **empty}}
    for name, key, one in deltas:
        yield {"type": "content_block_delta", "delta": {"type": name, key: one}}
    yield {"type": "content_block_stop"}


def items(order: Order) -> list[dict[str, Any]]:
    """Return the output items of OpenAI's Responses."""
    plan, number = order.plan, order.number
    built: list[dict[str, Any]] = []
    if plan.think:
        summary = [{"type": "summary_text", "text": plan.think}]
        built.append({"type": "reasoning", "id": f"rs_{number}", "summary": summary})
        built[-1]["encrypted_content"] = secret(number * 6)
    if plan.text:
        spoken = [{"type": "output_text", "text": plan.text, "annotations": [], "logprobs": []}]
        built.append({"type": "message", "id": f"msg_{number}", "role": "assistant", "content": spoken})
        built[-1]["status"] = "completed"
    for nth, (name, supplied) in enumerate(plan.calls):
        tool = order.tools.get(name, {})
        call: dict[str, Any] = {"type": "function_call", "id": f"fc_{number}{nth}", "name": name}
        call |= {"call_id": f"call_{number}{nth}", "status": "completed"}
        call |= {"namespace": tool["namespace"]} if "namespace" in tool else {}
        if tool.get("type") == "custom":
            built.append(call | {"type": "custom_tool_call", "id": f"ctc_{number}{nth}", **supplied})
        else:
            built.append(call | {"arguments": json.dumps(supplied, ensure_ascii=False)})
    return built


def response(order: Order) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the whole response of OpenAI's Responses, and the events of its stream."""
    used = order.used
    usage = {
        "input_tokens": used.total,
        "input_tokens_details": {"cached_tokens": used.read},
        "output_tokens": order.output,
        "output_tokens_details": {"reasoning_tokens": len(order.plan.think) // 4},
        "total_tokens": used.total + order.output,
    }
    base = {
        "id": f"resp_{order.number}",
        "object": "response",
        "created_at": CREATED,
        "status": "in_progress",
    }
    base |= {
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": order.model,
        "output": [],
    }
    base |= {
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
    }
    built = items(order)
    done = {**base, "status": "completed", "output": built, "usage": usage}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": base}]
    events.append({"type": "response.in_progress", "response": base})
    for nth, item in enumerate(built):
        events += [{"output_index": nth, **one} for one in _item(item)]
    events.append({"type": "response.completed", "response": done})
    return done, [{**one, "sequence_number": nth} for nth, one in enumerate(events)]


def _item(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    at: dict[str, Any] = {"item_id": item["id"]}
    match item["type"]:
        case "message":
            (part,) = item["content"]
            at |= {"content_index": 0}
            yield {
                "type": "response.output_item.added",
                "item": {**item, "content": [], "status": "in_progress"},
            }
            yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
            for one in pieces(part["text"], TEXT_PIECE):
                yield {"type": "response.output_text.delta", **at, "delta": one, "logprobs": []}
            yield {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []}
            yield {"type": "response.content_part.done", **at, "part": part}
        case "function_call":
            yield {"type": "response.output_item.added", "item": {**item, "arguments": ""}}
            for one in pieces(item["arguments"], ARGUMENTS_PIECE):
                yield {"type": "response.function_call_arguments.delta", **at, "delta": one}
            done = {"arguments": item["arguments"], "name": item["name"]}
            yield {"type": "response.function_call_arguments.done", **at, **done}
        case "custom_tool_call":
            yield {"type": "response.output_item.added", "item": {**item, "input": ""}}
            for one in pieces(item["input"], ARGUMENTS_PIECE):
                yield {"type": "response.custom_tool_call_input.delta", **at, "delta": one}
            yield {"type": "response.custom_tool_call_input.done", **at, "input": item["input"]}
        case _:
            (part,) = item["summary"]
            at |= {"summary_index": 0}
            yield {"type": "response.output_item.added", "item": {**item, "summary": []}}
            yield {"type": "response.reasoning_summary_part.added", **at, "part": {**part, "text": ""}}
            for one in pieces(part["text"], TEXT_PIECE):
                yield {"type": "response.reasoning_summary_text.delta", **at, "delta": one}
            yield {"type": "response.reasoning_summary_text.done", **at, "text": part["text"]}
            yield {"type": "response.reasoning_summary_part.done", **at, "part": part}
    yield {"type": "response.output_item.done", "item": item}


def responses(order: Order) -> list[bytes]:
    """Return the answer of OpenAI's Responses."""
    done, events = response(order)
    return [event(one) for one in events] if order.body.get("stream") else [as_json(done)]


def chat(order: Order) -> list[bytes]:
    """Return the answer of OpenAI's Chat Completions."""
    body, plan, used, number, model, _ = order
    usage = {
        "prompt_tokens": used.total,
        "completion_tokens": order.output,
        "total_tokens": used.total + order.output,
        "prompt_tokens_details": {"cached_tokens": used.read},
        "completion_tokens_details": {"reasoning_tokens": len(plan.think) // 4},
    }
    calls = [
        {
            "id": f"call_{number}{nth}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(supplied)},
        }
        for nth, (name, supplied) in enumerate(plan.calls)
    ]
    stop = "tool_calls" if calls else "stop"
    base = {"id": f"chatcmpl-{number}", "created": CREATED, "model": model, "system_fingerprint": "fp_1"}
    if not body.get("stream"):
        message: dict[str, Any] = {"role": "assistant", "content": plan.text or None, "refusal": None}
        message |= {"tool_calls": calls} if calls else {}
        choice = {"index": 0, "message": message, "finish_reason": stop, "logprobs": None}
        return [as_json({**base, "object": "chat.completion", "choices": [choice], "usage": usage})]
    base["object"] = "chat.completion.chunk"

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return event({**base, "choices": [choice]}, ascii=True)

    events = [chunk({"role": "assistant", "content": "", "refusal": None}), b": keep-alive\n\n"]
    events += [chunk({"reasoning_content": one}) for one in pieces(plan.think, TEXT_PIECE) if one]
    events += [chunk({"content": one}) for one in pieces(plan.text, TEXT_PIECE)]
    for nth, call in enumerate(calls):
        name, supplied = plan.calls[nth]
        head = {**call, "index": nth, "function": {"name": name, "arguments": ""}}
        events.append(chunk({"tool_calls": [head]}))
        for one in pieces(json.dumps(supplied), ARGUMENTS_PIECE):
            events.append(chunk({"tool_calls": [{"index": nth, "function": {"arguments": one}}]}))
    events.append(chunk({}, stop))
    if (body.get("stream_options") or {}).get("include_usage"):
        events.append(event({**base, "choices": [], "usage": usage}))
    return [*events, b"data: [DONE]\n\n"]


def gemini(order: Order) -> list[bytes]:
    """Return the answer of Gemini's `generateContent`, or of its stream where the body says `stream`."""
    body, plan, used, number, model, _ = order
    usage = {
        "promptTokenCount": used.total,
        "cachedContentTokenCount": used.read,
        "candidatesTokenCount": order.output,
        "thoughtsTokenCount": len(plan.think) // 4,
        "totalTokenCount": used.total + order.output,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": used.total}],
    }
    parts: list[dict[str, Any]] = [{"text": plan.think, "thought": True}] if plan.think else []
    stream = bool(body.get("stream"))
    parts += [{"text": one} for one in (pieces(plan.text, 20) if stream else [plan.text])]
    for nth, (name, supplied) in enumerate(plan.calls):
        call = {"name": name, "args": supplied, "id": f"fc_{number}{nth}"}
        parts.append({"functionCall": call, "thoughtSignature": secret(number)})
    base = {"modelVersion": model, "responseId": f"gem_{number}"}
    done = {"finishReason": "STOP", "index": 0}
    if not stream:
        candidate = {"content": {"parts": parts, "role": "model"}, **done}
        return [as_json({"candidates": [candidate], "usageMetadata": usage, **base}, indent=2)]
    events = []
    for nth, part in enumerate(parts):
        candidate = {"content": {"parts": [part], "role": "model"}, **(done if nth == len(parts) - 1 else {})}
        counted = {**usage, "candidatesTokenCount": min(nth + 1, order.output)}
        events.append(event({"candidates": [candidate], "usageMetadata": counted, **base}, end="\r\n"))
    return events


def secret(text: str) -> str:
    """Return something that looks encrypted."""
    return b64encode(f"sealed {text} sealed".encode()).decode()


DIALECTS: dict[str, Callable[[Order], list[bytes]]] = {
    "messages": messages,
    "responses": responses,
    "chat": chat,
    "gemini": gemini,
}


def error(dialect: str, status: int, message: str) -> dict[str, Any]:
    """Return the body of an error in a dialect."""
    match dialect:
        case "messages":
            names = {429: "rate_limit_error", 529: "overloaded_error", 413: "request_too_large"}
            return {"type": "error", "error": {"type": names.get(status, "api_error"), "message": message}}
        case "gemini":
            return {"error": {"code": status, "message": message, "status": "UNAVAILABLE"}}
        case _:
            return {"error": {"message": message, "type": "server_error", "param": None, "code": None}}


def error_event(dialect: str) -> bytes:
    """Return an error as an event of a stream that began with status 200."""
    body = error(dialect, 529, "Overloaded")
    if dialect == "responses":
        body = {"type": "error", "code": "server_error", "message": "Overloaded", "param": None}
    return event(body, end="\r\n" if dialect == "gemini" else "\n")
