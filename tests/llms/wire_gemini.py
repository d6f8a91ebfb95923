"""An answer as Gemini's streamGenerateContent streams it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from stenolog import TextPart, ToolCall
from stenolog.events import Usage
from stenolog.models import Gemini, ModelResponse
from stenolog.parts import AssistantPart, ProviderPart, ReasoningPart
from tests.llms.api import CALLS, KEY, TEXTS, TOKENS, Api, Broke, Refused, opaque, signed
from tests.llms.server import sse
from tests.llms.wire_openai_chat import PIECE, pieces

Body = dict[str, Any]


def frames(answer: ModelResponse, piece: int = PIECE) -> Iterator[bytes]:
    """Yield texts and thoughts in pieces of so many characters, one chunk each; calls are whole.

    Each chunk counts the thoughts, and the last all.
    """
    so_far = usage(replace(answer.usage, output=answer.usage.reasoning)) if answer.usage else {}
    *parts, last = signed_parts(answer, piece)
    for part in parts:
        yield sse(chunk(answer.model, part, counted=so_far))
    yield sse(ended(answer, *last))


def whole(answer: ModelResponse) -> Body:
    """Return a response that did not stream."""
    *parts, last = signed_parts(answer, 1 << 30)
    return ended(answer, *parts, *last)


def ended(answer: ModelResponse, *parts: Body) -> Body:
    """Return the last chunk of an answer, with these parts."""
    counted = usage(answer.usage) if answer.usage else {}
    finish = {"finishReason": answer.finish_reason} if answer.finish_reason else {}
    return chunk(answer.model, *parts, counted=counted, **finish)


def signed_parts(answer: ModelResponse, piece: int) -> Iterator[Any]:
    """Yield the parts of an answer, and at last those of its end.

    A signature comes with the part after its reasoning: a text's first piece, or an empty one at the end.
    """
    signature = ""
    for part in answer.parts:
        for made in parts_of(part, piece):
            signed = {"thoughtSignature": signature} if signature and "thought" not in made else {}
            yield made | signed
            signature = "" if signed else signature
        if isinstance(part, ReasoningPart):
            signature = part.signature
    yield [{"text": "", "thoughtSignature": signature}] if signature else []


def parts_of(part: AssistantPart, piece: int = PIECE) -> Iterator[Body]:
    """Yield one part, as this API has it, without its signature."""
    match part:
        case TextPart(text=text):
            yield from ({"text": some} for some in pieces(text, piece))
        case ReasoningPart(text=text):
            yield from ({"text": some, "thought": True} for some in pieces(text, piece))
        case ToolCall(id=id, name=name, arguments=arguments):
            named = {"id": id} if id else {}
            yield {"functionCall": {**named, "name": name, "args": json.loads(arguments)}}
        case ProviderPart(raw=raw):
            yield json.loads(raw)
        case _:
            raise NotImplementedError(part)


def chunk(model: str, *parts: Body, counted: Body | None = None, **fields: Any) -> Body:
    """Return one chunk with these parts; `fields` are the candidate's."""
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0, **fields}
    return {"candidates": [candidate], "modelVersion": model, "usageMetadata": counted or {}}


def usage(tokens: Usage) -> Body:
    """Return tokens in this API's words: the output excludes thoughts."""
    return {
        "promptTokenCount": tokens.input,
        "cachedContentTokenCount": tokens.cache_read,
        "candidatesTokenCount": tokens.output - tokens.reasoning,
        "thoughtsTokenCount": tokens.reasoning,
        "totalTokenCount": tokens.input + tokens.output,
    }


def error(code: int, status: str, message: str, *details: Body) -> Body:
    """Return an error, as the body of a response or as a chunk in mid-stream."""
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def retry_in(delay: str) -> Body:
    """Return the detail that says how long to wait."""
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def exhausted(message: str, *details: Body) -> Body:
    """Return the error for a limit that was reached."""
    return error(429, "RESOURCE_EXHAUSTED", message, *details)


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Any]:
    """Open a client of the SDK that tries again."""
    from google import genai

    often = genai.types.HttpRetryOptions(attempts=5, initial_delay=0.01)
    options = genai.types.HttpOptions(base_url=url, retry_options=often)
    with genai.Client(api_key=KEY, http_options=options) as opened:
        async with opened.aio:
            yield opened


TOO_MANY = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
BAD_KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
QUOTA = "You exceeded your current quota, please check your plan and billing details."
AWAY = "User location is not supported"
MODEL = "gemini-3-pro"
SEVERAL = st.lists(
    st.tuples(signed("gemini"), CALLS | TEXTS).map(list)
    | st.one_of(CALLS, opaque("x", provider="gemini", model=MODEL)).map(lambda part: [part]),
    max_size=3,
)
API = Api(
    Gemini,
    MODEL,
    frames,
    whole,
    "STOP",
    "SAFETY",
    SEVERAL.map(
        lambda found: [*(part for parts in found for part in parts), ToolCall(id="last", name="shell")]
    ),
    ("STOP", "MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL", "NEW_ONE"),
    lambda whole: [whole["candidates"][0]["content"]],
    {"role": "user", "parts": [{"text": "Look."}]},
    hurried={"http_options": {"timeout": 50}},
    refused=(
        Refused(400, error(400, "INVALID_ARGUMENT", "Please use a valid role"), "invalid_request"),
        Refused(400, error(400, "INVALID_ARGUMENT", TOO_MANY), "context_length"),
        Refused(400, error(400, "INVALID_ARGUMENT", "API key not valid.", BAD_KEY), "unauthorized"),
        Refused(400, error(400, "FAILED_PRECONDITION", AWAY), "invalid_request"),
        Refused(408, error(408, "CANCELLED", "late"), "timeout"),
        Refused(429, exhausted(QUOTA, retry_in("34.07s")), "rate_limited", 34.07),
        Refused(429, exhausted(QUOTA, retry_in("soon")), "budget"),
        Refused(429, exhausted(QUOTA), "budget"),
        Refused(429, exhausted("Resource exhausted."), "rate_limited"),
        Refused(503, error(503, "UNAVAILABLE", "overloaded", retry_in("2s")), "overloaded", 2.0),
    ),
    broke=(Broke(sse(error(503, "UNAVAILABLE", "Oh")), "overloaded", 503),),
    client=client,
    before=-1,
    told=replace(TOKENS, output=TOKENS.reasoning),
)
