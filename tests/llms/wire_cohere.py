"""An answer as Cohere's Chat API streams it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from stenolog import TextPart, ToolCall
from stenolog.events import Usage
from stenolog.models import MODELS, ModelResponse
from stenolog.parts import AssistantPart, ReasoningPart
from stenolog.projections.formats.cohere.write import PLAN
from stenolog.projections.messages.body_digest import compact
from tests.llms.api import CALLS, DONE, NAMES, TEXTS, WORDS, Api, Broke, Refused, groups, maybe
from tests.llms.server import sse
from tests.llms.wire_openai_chat import PIECE, pieces


def frames(answer: ModelResponse, piece: int = PIECE) -> Iterator[bytes]:
    """Yield the plan, thoughts, texts and arguments in pieces of so many characters, and what is cited."""
    yield sse({"type": "message-start", "id": "m1", "delta": {"message": {"role": "assistant"}}})
    content = calls = 0
    for part in answer.parts:
        match part:
            case ToolCall():
                yield from _call(part, calls, piece)
                calls += 1
            case ReasoningPart(text=text, id=id) if id == PLAN:
                yield from (_event("tool-plan-delta", {PLAN: some}) for some in pieces(text, piece))
            case _:
                yield from _content(part, content, piece)
                content += 1
    yield sse({"type": "message-end", "delta": _end(answer)})


def whole(answer: ModelResponse) -> dict[str, Any]:
    """Return an answer that did not stream."""
    message: dict[str, Any] = {"role": "assistant"}
    for part in answer.parts:
        match part:
            case ToolCall(id=id, name=name, arguments=given):
                call = {"id": id, "type": "function", "function": {"name": name, "arguments": given}}
                message.setdefault("tool_calls", []).append(call)
            case ReasoningPart(text=text, id=id) if id == PLAN:
                message[PLAN] = text
            case _:
                message.setdefault("content", []).append(_block(part))
                message.setdefault("citations", []).extend(_cited(part))
    return {"id": "m1", "message": message, **_end(answer)}


def _event(kind: str, message: dict[str, Any], index: int = 0) -> bytes:
    return sse({"type": kind, "index": index, "delta": {"message": message}}, kind)


def _call(call: ToolCall, index: int, piece: int) -> Iterator[bytes]:
    begun = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
    yield _event("tool-call-start", {"tool_calls": begun}, index)
    for some in pieces(call.arguments, piece):
        yield _event("tool-call-delta", {"tool_calls": {"function": {"arguments": some}}}, index)
    yield sse({"type": "tool-call-end", "index": index})


def _content(part: AssistantPart, index: int, piece: int) -> Iterator[bytes]:
    block = _block(part)
    kind = block["type"]
    yield _event("content-start", {"content": {"type": kind, kind: ""}}, index)
    for some in pieces(block[kind], piece):
        yield _event("content-delta", {"content": {kind: some}}, index)
    yield sse({"type": "content-end", "index": index})
    for number, cited in enumerate(_cited(part)):
        yield _event("citation-start", {"citations": cited}, number)
        yield sse({"type": "citation-end", "index": number})


def _block(part: AssistantPart) -> dict[str, str]:
    match part:
        case TextPart(text=text):
            return {"type": "text", "text": text}
        case ReasoningPart(text=text):
            return {"type": "thinking", "thinking": text}
        case _:
            raise NotImplementedError(part)


def _cited(part: AssistantPart) -> list[Any]:
    return json.loads(part.raw)["citations"] if isinstance(part, TextPart) and part.raw else []


def _end(answer: ModelResponse) -> dict[str, Any]:
    used = answer.usage
    return {"finish_reason": answer.finish_reason or None, **({"usage": usage(used)} if used else {})}


def usage(tokens: Usage) -> dict[str, Any]:
    """Return tokens in this API's words: it bills less than it reads."""
    counted = {"input_tokens": float(tokens.input), "output_tokens": float(tokens.output)}
    billed = {"input_tokens": 2.0, "output_tokens": counted["output_tokens"]}
    return {"billed_units": billed, "tokens": counted, "cached_tokens": tokens.cache_read}


def _citing(text: str, source: str) -> TextPart:
    cited = {"start": 0, "end": 1, "text": text[:1], "sources": [{"type": "tool", "id": source}]}
    return TextPart(text=text, provider="cohere", raw=compact({"citations": [{**cited, "content_index": 0}]}))


def _thought(id: str) -> st.SearchStrategy[list[Any]]:
    return maybe(st.builds(ReasoningPart, text=WORDS, provider=st.just("cohere"), id=st.just(id)))


def _failed(reason: str, **counted: Any) -> bytes:
    return sse({"type": "message-end", "delta": {"finish_reason": reason, "error": "Oh", **counted}})


COUNTED = Usage(input=120, output=30, cache_read=100)
TOO_MANY = "too many tokens: size limit exceeded by 11326 tokens. Try using shorter or fewer inputs."
API = Api(
    MODELS["cohere"],
    "command-a-03-2025",
    frames,
    whole,
    "COMPLETE",
    "content_filter",
    st.one_of(
        groups(_thought(""), TEXTS.map(lambda part: [part])),
        st.builds(_citing, WORDS, NAMES).map(lambda part: [part]),
        groups(maybe(TEXTS), _thought(PLAN), st.lists(CALLS, min_size=1, max_size=3)),
        st.just([DONE]),
    ),
    ("COMPLETE", "MAX_TOKENS", "STOP_SEQUENCE", "TOOL_CALL"),
    lambda whole: [whole["message"]],
    {"role": "user", "content": [{"type": "document", "document": {"data": {"text": "Look."}}}]},
    says_model=False,
    tokens=COUNTED,
    refused=(Refused(400, {"message": TOO_MANY}, "context_length"),),
    told=COUNTED,
    broke=(
        Broke(_failed("ERROR", usage=usage(COUNTED)), "overloaded"),
        Broke(_failed("TIMEOUT"), "timeout"),
    ),
)
