"""An answer as Anthropic Messages streams it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from stenolog import TextPart, ToolCall
from stenolog.events import Usage
from stenolog.models import Anthropic, ModelResponse
from stenolog.parts import AssistantPart, ProviderPart, ReasoningPart
from tests.llms.api import CALLS, KEY, NAMES, TEXTS, TOKENS, Api, Broke, Refused, opaque, several, signed
from tests.llms.server import sse
from tests.llms.wire_openai_chat import PIECE, pieces

PING: dict[str, Any] = {"type": "ping"}
STOP: dict[str, Any] = {"type": "message_stop"}


def frames(answer: ModelResponse, piece: int = PIECE) -> Iterator[bytes]:
    """Yield texts, thoughts and arguments in pieces of so many characters, with a ping between."""
    counted = usage(answer.usage) if answer.usage else {}
    begun = start(answer.model, {**counted, "output_tokens": 1} if counted else {})
    begun["message"]["diagnostics"] = diagnostics(answer.usage)
    yield event(begun)
    for index, part in enumerate(answer.parts):
        yield from (event(of_block | {"index": index}) for of_block in block(part, piece))
        yield event(PING)
    delta = {"stop_reason": answer.finish_reason or None, "stop_sequence": None}
    yield event({"type": "message_delta", "delta": delta, "usage": counted})
    yield event(STOP)


def whole(answer: ModelResponse) -> dict[str, Any]:
    """Return a message that did not stream."""
    counted = usage(answer.usage) if answer.usage else None
    message: dict[str, Any] = start(answer.model)["message"]
    given = {"content": [*map(content, answer.parts)], "stop_reason": answer.finish_reason}
    return {**message, **given, "usage": counted, "diagnostics": diagnostics(answer.usage)}


def content(part: AssistantPart) -> dict[str, Any]:
    """Return the block that a part is."""
    match part:
        case TextPart(text=text):
            return {"type": "text", "text": text}
        case ReasoningPart(encrypted=data) if data:
            return {"type": "redacted_thinking", "data": data}
        case ReasoningPart(text=text, signature=signature):
            return {"type": "thinking", "thinking": text, "signature": signature}
        case ToolCall(id=id, name=name, arguments=arguments):
            return {"type": "tool_use", "id": id, "name": name, "input": json.loads(arguments)}
        case ProviderPart(raw=raw):
            block: dict[str, Any] = json.loads(raw)
            return block
        case _:
            raise NotImplementedError(part)


def diagnostics(usage: Usage | None) -> dict[str, Any] | None:
    """Return Anthropic's verdict on its cache; None if it names nothing."""
    if usage is None or not usage.cache_verdict:
        return None
    missed = {"cache_missed_input_tokens": usage.cache_missed} if usage.cache_missed else {}
    return {"cache_miss_reason": {"type": usage.cache_verdict, **missed}}


def event(data: dict[str, Any]) -> bytes:
    """Return one event, named by its type."""
    return sse(data, data["type"])


def start(model: str = "claude-opus-5", counted: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the event that a stream begins with."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": []}
    return {"type": "message_start", "message": {**message, "stop_reason": None, "usage": counted or {}}}


def block(part: AssistantPart, piece: int = PIECE) -> Iterator[dict[str, Any]]:
    """Yield the events of one block, without its index."""
    match part:
        case TextPart(text=text):
            yield opened({"type": "text", "text": ""})
            yield from (changed("text_delta", text=some) for some in pieces(text, piece))
        case ReasoningPart(encrypted=data) if data:
            yield opened(content(part))
        case ReasoningPart(text=text, signature=signature):
            yield opened({"type": "thinking", "thinking": "", "signature": ""})
            yield from (changed("thinking_delta", thinking=some) for some in pieces(text, piece))
            yield changed("signature_delta", signature=signature)
        case ToolCall(id=id, name=name, arguments=arguments):
            yield opened({"type": "tool_use", "id": id, "name": name, "input": {}})
            yield changed("input_json_delta", partial_json="")
            yield from (changed("input_json_delta", partial_json=some) for some in pieces(arguments, piece))
        case ProviderPart(raw=raw):
            yield from _raw(json.loads(raw), piece)
        case _:
            raise NotImplementedError(part)
    yield {"type": "content_block_stop"}


def _raw(raw: dict[str, Any], piece: int) -> Iterator[dict[str, Any]]:
    if raw["type"] == "server_tool_use":  # its input is streamed, like that of any call
        yield opened({**raw, "input": {}})
        given = json.dumps(raw["input"])
        yield from (changed("input_json_delta", partial_json=some) for some in pieces(given, piece))
    else:
        yield opened(raw)


def opened(content_block: dict[str, Any]) -> dict[str, Any]:
    """Return the beginning of a block."""
    return {"type": "content_block_start", "index": 0, "content_block": content_block}


def changed(kind: str, **fields: Any) -> dict[str, Any]:
    """Return a delta of a block."""
    return {"type": "content_block_delta", "index": 0, "delta": {"type": kind, **fields}}


def usage(tokens: Usage) -> dict[str, Any]:
    """Return tokens in this API's words: the input excludes reads from and writes to the cache."""
    return {
        "input_tokens": tokens.input - tokens.cache_read - tokens.cache_write,
        "cache_read_input_tokens": tokens.cache_read,
        "cache_creation_input_tokens": tokens.cache_write,
        "output_tokens": tokens.output,
        "output_tokens_details": {"thinking_tokens": tokens.reasoning},
    }


def error(kind: str, message: str) -> dict[str, Any]:
    """Return an error, as the body of a response or as an event in mid-stream."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def client(url: str) -> AbstractAsyncContextManager[Any]:
    """Return a client of the SDK that tries again."""
    import anthropic

    return anthropic.AsyncAnthropic(base_url=url, api_key=KEY, max_retries=5)


TOO_LONG = "prompt is too long: 213462 tokens > 200000 maximum"
MODEL = "claude-opus-5"
HIDDEN = st.builds(ReasoningPart, provider=st.just("anthropic"), encrypted=NAMES)
UNSEEN = st.builds(ReasoningPart, provider=st.just("anthropic"), signature=NAMES)
OPAQUE = opaque("type", provider="anthropic", model=MODEL)
API = Api(
    Anthropic,
    MODEL,
    frames,
    whole,
    "end_turn",
    "refusal",
    several(TEXTS, CALLS, signed("anthropic"), UNSEEN, HIDDEN, OPAQUE),
    ("end_turn", "max_tokens", "stop_sequence", "pause_turn", "refusal", "new"),
    lambda whole: [{"role": "assistant", "content": whole["content"]}],
    {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://a.b/c.png"}}]},
    refused=(
        Refused(400, error("invalid_request_error", "messages: required"), "invalid_request"),
        Refused(400, error("invalid_request_error", TOO_LONG), "context_length"),
        Refused(400, error("invalid_request_error", "Your credit balance is too low"), "budget"),
        Refused(402, error("billing_error", "pay"), "budget"),
    ),
    client=client,
    before=4,
    told=replace(TOKENS, output=1),
    broke=tuple(
        Broke(event(error(kind, "Oh")), category, status)
        for kind, category, status in (
            ("overloaded_error", "overloaded", 529),
            ("api_error", "overloaded", 500),
            ("rate_limit_error", "rate_limited", 429),
            ("timeout_error", "timeout", 408),
            ("invalid_request_error", "invalid_request", 400),
        )
    ),
)
