"""An answer as OpenAI Responses streams it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from stenolog import TextPart, ToolCall
from stenolog.events import Usage
from stenolog.models import ModelResponse, OpenAIResponses
from stenolog.parts import AssistantPart, ProviderPart, ReasoningPart, RefusalPart
from tests.llms.api import CALLS, NAMES, REFUSALS, TEXTS, TOKENS, Api, Broke, opaque, several
from tests.llms.server import sse
from tests.llms.wire_openai_chat import BROKE, PIECE, REFUSED, client, error, pieces


def frames(answer: ModelResponse, piece: int = PIECE) -> Iterator[bytes]:
    """Yield each part as an item that streams and is then repeated whole, and the response at the end."""
    yield event("created", response=response(answer, status="in_progress"))
    for place, part in enumerate(answer.parts):
        whole = item(place, part)
        yield event("output_item.added", output_index=place, item=begun(whole))
        yield from (event(named, output_index=place, **more) for named, more in deltas(part, piece))
        yield event("output_item.done", output_index=place, item=whole)
    yield from [end(answer)]


def end(answer: ModelResponse) -> bytes:
    """Return the event that a response ends with."""
    made = whole(answer)
    return event(made["status"], response=made)


def whole(answer: ModelResponse) -> dict[str, Any]:
    """Return a response that did not stream."""
    if answer.finish_reason == "completed":
        return response(answer, status="completed")
    return response(answer, status="incomplete", incomplete_details={"reason": answer.finish_reason})


def event(named: str, **more: Any) -> bytes:
    """Return one event of a response."""
    return sse({"type": f"response.{named}", **more}, f"response.{named}")


def response(answer: ModelResponse, **more: Any) -> dict[str, Any]:
    """Return the response that the events tell of."""
    done = more["status"] != "in_progress"
    output = [item(place, part) for place, part in enumerate(answer.parts)] if done else []
    tokens = usage(answer.usage) if done and answer.usage else None
    return {
        "id": "resp_1",
        "object": "response",
        "model": answer.model,
        "output": output,
        "usage": tokens,
        "prompt_cache_diagnostics": diagnostics(answer.usage) if done else None,
        **more,
    }


def diagnostics(usage: Usage | None) -> dict[str, Any] | None:
    """Return OpenAI's verdict on its cache; None if it was not asked for one."""
    if usage is None or not usage.cache_verdict:
        return None
    if not usage.cache_missed:
        return {"type": usage.cache_verdict}
    missed = {"cache_missed_tokens": usage.cache_missed, "comparison_reusable_tokens": 9}
    return {"type": "cache_miss", "reason": usage.cache_verdict, **missed}


def item(place: int, part: AssistantPart) -> dict[str, Any]:
    """Return the item that a part is."""
    match part:
        case TextPart(text=text):
            return _message(place, {"type": "output_text", "text": text, "annotations": []})
        case RefusalPart(text=text):
            return _message(place, {"type": "refusal", "refusal": text})
        case ToolCall(id=id, name=name, arguments=arguments):
            return {"type": "function_call", "id": f"fc_{place}", "call_id": id, "name": name} | {
                "arguments": arguments,
                "status": "completed",
            }
        case ReasoningPart(id=id, text=text, encrypted=encrypted):
            summary = [{"type": "summary_text", "text": section} for section in text.split("\n\n") if section]
            return {"type": "reasoning", "id": id, "summary": summary, "encrypted_content": encrypted}
        case ProviderPart(raw=raw):
            whole: dict[str, Any] = json.loads(raw)
            return whole


def begun(whole: dict[str, Any]) -> dict[str, Any]:
    """Return an item as it is when nothing of it has streamed."""
    empty: dict[str, dict[str, Any]] = {
        "message": {"content": []},
        "function_call": {"arguments": ""},
        "reasoning": {"summary": []},
    }
    return {**whole, **empty.get(whole["type"], {}), "status": "in_progress"}


def deltas(part: AssistantPart, piece: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the events that stream a part."""
    match part:
        case TextPart(text=text):
            yield from _pieces("output_text.delta", text, piece, content_index=0)
        case RefusalPart(text=text):
            yield from _pieces("refusal.delta", text, piece, content_index=0)
        case ToolCall(arguments=arguments):
            yield from _pieces("function_call_arguments.delta", arguments, piece)
        case ReasoningPart(text=text):
            for at, section in enumerate(filter(None, text.split("\n\n"))):
                empty = {"type": "summary_text", "text": ""}
                yield "reasoning_summary_part.added", {"summary_index": at, "part": empty}
                yield from _pieces("reasoning_summary_text.delta", section, piece, summary_index=at)
        case ProviderPart():
            pass


def usage(tokens: Usage) -> dict[str, Any]:
    """Return tokens in this API's words."""
    return {
        "input_tokens": tokens.input,
        "output_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "input_tokens_details": {
            "cached_tokens": tokens.cache_read,
            "cache_write_tokens": tokens.cache_write,
        },
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
    }


def _pieces(named: str, text: str, piece: int, **more: int) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((named, {**more, "delta": some}) for some in pieces(text, piece))


def _message(place: int, content: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "message",
        "id": f"msg_{place}",
        "role": "assistant",
        "status": "completed",
        "content": [content],
    }


SECTIONS = st.lists(st.text("ab \n", min_size=1, max_size=9).filter(str.strip).map(str.strip), max_size=3)
REASONED = st.builds(
    ReasoningPart,
    text=SECTIONS.map("\n\n".join).filter(lambda text: "\n\n\n" not in text),
    provider=st.just("openai"),
    id=NAMES,
    encrypted=NAMES,
)
API = Api(
    OpenAIResponses,
    "gpt-5",
    frames,
    whole,
    "completed",
    "content_filter",
    several(TEXTS, CALLS, REFUSALS, REASONED, opaque("type", provider="openai")),
    ("completed", "max_output_tokens", "content_filter"),
    lambda whole: list(whole["output"]),
    {"role": "user", "content": [{"type": "input_text", "text": "Look."}]},
    root="/v1",
    refused=REFUSED,
    broke=(
        Broke(
            event(
                "failed", response={"status": "failed", "usage": usage(TOKENS), **error("Oh", "server_error")}
            ),
            "overloaded",
        ),
        BROKE,
    ),
    client=client,
)
