"""An answer as OpenAI Chat Completions streams it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from hypothesis import strategies as st

from stenolog import TextPart, ToolCall
from stenolog.events import Usage
from stenolog.models import ModelResponse, OpenAIChat
from stenolog.parts import AssistantPart, ReasoningPart, RefusalPart
from tests.llms.api import CALLS, CUSTOM, KEY, REFUSALS, TEXTS, WORDS, Api, Broke, Refused, groups, maybe
from tests.llms.server import sse

PIECE = 5


def frames(answer: ModelResponse, piece: int = PIECE) -> Iterator[bytes]:
    """Yield texts and arguments in pieces of so many characters, and the usage at the end."""
    yield _chunk(answer, {"role": "assistant", "content": ""})
    calls = 0
    for part in answer.parts:
        for delta in deltas(part, piece, calls):
            yield _chunk(answer, delta)
        calls += isinstance(part, ToolCall)
    yield _chunk(answer, {}, answer.finish_reason or None)
    if answer.usage:
        yield sse({"model": answer.model, "choices": [], "usage": usage(answer.usage)})
    yield sse("[DONE]")


def whole(answer: ModelResponse) -> dict[str, Any]:
    """Return a completion that did not stream."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    for part in answer.parts:
        match part:
            case ToolCall(id=id, name=name, arguments=arguments):
                call = {"id": id, "type": part.form or "function", **_called(part, name, arguments)}
                message.setdefault("tool_calls", []).append(call)
            case _:
                message |= next(deltas(part, 1 << 30, 0))
    choice = {"index": 0, "message": message, "finish_reason": answer.finish_reason}
    counted = {"usage": usage(answer.usage)} if answer.usage else {}
    return {**_completion(answer, "chat.completion"), "choices": [choice], **counted}


def deltas(part: AssistantPart, piece: int, index: int) -> Iterator[dict[str, Any]]:
    """Yield one part in pieces; a call's first has its id and name."""
    match part:
        case TextPart(text=text):
            yield from ({"content": some} for some in pieces(text, piece))
        case RefusalPart(text=text):
            yield from ({"refusal": some} for some in pieces(text, piece))
        case ReasoningPart(text=text):
            yield from ({"reasoning_content": some} for some in pieces(text, piece))
        case ToolCall(id=id, name=name, arguments=arguments):
            yield _call(index, _called(part, name, ""), id=id, type=part.form or "function")
            yield from (_call(index, _called(part, "", some)) for some in pieces(arguments, piece))
        case _:
            raise NotImplementedError(part)


def pieces(text: str, size: int) -> Iterator[str]:
    """Yield a text in pieces of so many characters."""
    return (text[at : at + size] for at in range(0, len(text), size))


def usage(tokens: Usage) -> dict[str, Any]:
    """Return tokens in this API's words."""
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    }


def _call(index: int, called: dict[str, Any], **named: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, **named, **called}]}


def _called(call: ToolCall, name: str, given: str) -> dict[str, Any]:
    """Return a call, or a piece of it, in the fields of its form."""
    named = {"name": name} if name else {}
    if call.form:
        return {"custom": {**named, "input": given}}
    return {"function": {**named, "arguments": given}}


def _chunk(answer: ModelResponse, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return sse({**_completion(answer, "chat.completion.chunk"), "choices": [choice]})


def _completion(answer: ModelResponse, kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1_700_000_000, "model": answer.model}


def error(message: str, code: str = "", type: str = "") -> dict[str, Any]:
    """Return an error, as the body of a response or as an event in mid-stream."""
    return {"error": {"message": message, "code": code or None, "type": type or None}}


def client(url: str) -> AbstractAsyncContextManager[Any]:
    """Return a client of the SDK that tries again."""
    import openai

    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=5)


REFUSED = (
    Refused(400, error("no", type="invalid_request_error"), "invalid_request"),
    Refused(400, error("too much", "context_length_exceeded"), "context_length"),
    Refused(400, error("no", "content_filter"), "refused"),
    Refused(400, error("no", "invalid_prompt"), "refused"),
    Refused(404, error("no such model", "model_not_found"), "invalid_request"),
    Refused(429, error("pay", "insufficient_quota"), "budget"),
)
BROKE = Broke(sse(error("Oh", type="server_error")), "overloaded")
API = Api(
    OpenAIChat,
    "gpt-5",
    frames,
    whole,
    "stop",
    "content_filter",
    groups(
        maybe(st.builds(ReasoningPart, text=WORDS, provider=st.just("openai"))),
        TEXTS.map(lambda part: [part]),
        maybe(REFUSALS),
        st.lists(CALLS | CUSTOM, max_size=3),
    ),
    ("stop", "length", "tool_calls", "content_filter"),
    lambda whole: [whole["choices"][0]["message"]],
    root="/v1",
    refused=REFUSED,
    broke=(BROKE,),
    client=client,
    before=-1,
)
