"""Parts of opencode's messages as parts of events."""

from __future__ import annotations

from typing import Any

from stenolog.events import ErrorCategory, Usage
from stenolog.importers import (
    Blobs,
    BlockContext,
    Json,
    JsonObject,
    PartTable,
    arguments,
    as_dict,
    as_int,
    as_str,
    compact_json,
    error_category,
    keep_data_url,
    media_part,
    text_parts,
)
from stenolog.parts import (
    AssistantPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    UserPart,
)

from .units import attachments

_PROVIDERS = {"google": "gemini", "vertex": "gemini", "bedrock": "anthropic"}
"""Providers whose name in a part's metadata is not that of their reasoning."""
_READ_ALOUD = ("text/plain", "application/x-directory")
"""The types of files whose content opencode adds as a text of its own."""
_CATEGORIES: dict[str, ErrorCategory] = {
    "MessageAbortedError": "cancelled",
    "ProviderAuthError": "unauthorized",
    "ContextOverflowError": "context_length",
    "StructuredOutputError": "invalid_response",
}
_MICRO = 1_000_000


def _proof(part: JsonObject) -> tuple[str, JsonObject]:
    """Return a provider's name, and what it tells of a part beside its words."""
    for name, facts in as_dict(part.get("metadata")).items():
        if isinstance(facts, dict):
            return _PROVIDERS.get(name, name), facts
    return "", {}


def _reasoning(part: JsonObject, _: BlockContext) -> list[AssistantPart] | None:
    provider, facts = _proof(part)
    if not isinstance(text := part.get("text"), str):
        return None
    found = ReasoningPart(
        text=text,
        provider=provider,
        id=as_str(facts.get("itemId")),
        signature=as_str(facts.get("signature")) or as_str(facts.get("thoughtSignature")),
        encrypted=as_str(facts.get("redactedData")) or as_str(facts.get("reasoningEncryptedContent")),
    )
    return [found] if found.text or found.signature or found.encrypted else []


def _call(part: JsonObject, _: BlockContext) -> list[AssistantPart]:
    provider, facts = _proof(part)
    signature = as_str(facts.get("thoughtSignature"))
    state = as_dict(part.get("state"))
    # A call that was cut off has only the beginning of its arguments, as text.
    raw = as_str(state.get("raw")) if not state.get("input") else ""
    call = ToolCall(
        id=as_str(part.get("callID")) or as_str(part.get("id")),
        name=as_str(part.get("tool")),
        arguments=raw or arguments(state.get("input")),
    )
    return [ReasoningPart(provider=provider, signature=signature), call] if signature else [call]


def _text(part: JsonObject, _: BlockContext) -> list[TextPart] | None:
    return text_parts(text) if isinstance(text := part.get("text"), str) else None


ANSWERS = PartTable[AssistantPart]("opencode", {"text": _text, "reasoning": _reasoning, "tool": _call})


def result_parts(part: JsonObject, blobs: Blobs) -> list[UserPart]:
    """Return the output of a call, or the words of its error."""
    state = as_dict(part.get("state"))
    if state.get("status") == "error":
        interrupted = as_str(as_dict(state.get("metadata")).get("output"))
        error = state.get("error")
        wording = as_str(error) or as_str(as_dict(error).get("message"))
        return [*text_parts(wording), *(text_parts(interrupted) if interrupted != wording else ())]
    output = state.get("output")
    wording = output if isinstance(output, str) else "" if output is None else compact_json(output)
    return [*text_parts(wording), *(file_part(each, blobs) for each in attachments(part))]


def file_part(part: JsonObject, blobs: Blobs) -> UserPart:
    """Return a file or a picture: its bytes where it has them, else its address."""
    url = as_str(part.get("url"))
    stored = keep_data_url(url, blobs)
    media_type = as_str(part.get("mime")) or (stored[0] if stored else "") or "application/octet-stream"
    blob, url = (stored[1], "") if stored else ("", url)
    return media_part(media_type, as_str(part.get("filename")), blob=blob, url=url)


def is_read_aloud(part: JsonObject) -> bool:
    """Return whether a file is one whose content stands in a text beside it."""
    return part.get("type") == "file" and part.get("mime") in _READ_ALOUD


def user_part(part: JsonObject, blobs: Blobs) -> UserPart | None:
    """Return what a person gave the agent with a part; None for a part that says nothing."""
    match part:
        case {"type": "text", "text": str(text)}:
            return TextPart(text=text) if text else None
        case {"type": "subtask", "prompt": str(prompt)}:
            return TextPart(text=prompt)
        case {"type": "file", "url": str()}:
            return None if is_read_aloud(part) else file_part(part, blobs)
        case _:
            return None


def usage_of(about: JsonObject) -> Usage | None:
    """Return the tokens of a step or a message; those of the cache are counted beside the input.

    Since opencode tells a total, thoughts are counted beside the output, before that in it.
    """
    counted = as_dict(about.get("tokens"))
    cache = as_dict(counted.get("cache"))
    read, write = as_int(cache.get("read")), as_int(cache.get("write"))
    sent, output, thought = (as_int(counted.get(name)) for name in ("input", "output", "reasoning"))
    if not (sent or read or write or output):
        return None
    all_of_them = sent + read + write + output + thought
    output += thought if as_int(counted.get("total")) >= all_of_them else 0
    cost = about.get("cost")
    price = as_int(round(cost * _MICRO)) if isinstance(cost, int | float) and cost > 0 else None
    return Usage(
        input=sent + read + write,
        output=output,
        cache_read=read,
        cache_write=write,
        reasoning=thought,
        cost=price,
    )


def failure(error: Json) -> tuple[str, ErrorCategory]:
    """Return the words of an error, and its category."""
    named = as_dict(error)
    data = as_dict(named.get("data"))
    name = as_str(named.get("name"))
    wording = as_str(data.get("message")) or as_str(named.get("message")) or as_str(error) or name
    return wording, _CATEGORIES.get(name) or error_category(wording, as_int(data.get("statusCode")))


def model_of(info: JsonObject) -> dict[str, Any]:
    """Return the model of a message and its provider, as a card has them; none where it tells none."""
    model = as_dict(info.get("model"))
    name = as_str(info.get("modelID")) or as_str(model.get("modelID")) or as_str(model.get("id"))
    provider = as_str(info.get("providerID")) or as_str(model.get("providerID"))
    return {"model": name, "provider": provider} if name else {}
