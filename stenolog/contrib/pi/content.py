"""Content of pi's messages as parts of events."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from stenolog.events import Usage
from stenolog.importers import (
    BlockContext,
    Json,
    JsonObject,
    PartTable,
    arguments,
    as_dict,
    as_int,
    as_str,
    media_maker,
    text_maker,
)
from stenolog.parts import AssistantPart, ReasoningPart, TextPart, ToolCall, UserPart

_PROVIDERS = {"anthropic": "anthropic", "bedrock": "anthropic", "google": "gemini", "openai": "openai"}
"""Providers of signatures and ciphertexts, by the first word of pi's names of APIs."""
_MICRO = 1_000_000


def provider_of(message: JsonObject) -> str:
    """Return the provider of an answer; of an API that several providers offer, the provider's own name."""
    api = as_str(message.get("api"))
    if api == "openai-completions":
        return as_str(message.get("provider"))
    return _PROVIDERS.get(api.split("-")[0], as_str(message.get("provider")))


def assistant_parts(message: JsonObject, key: str) -> list[AssistantPart]:
    """Return the parts of an answer; a call without an id gets one made of the message's key."""
    return _ANSWERS.parts(message.get("content"), provider=provider_of(message), key=key)


def _text(block: JsonObject, _: BlockContext) -> TextPart | None:
    phase = as_str(_json_in(block.get("textSignature")).get("phase"))
    return TextPart(text=block["text"], phase=phase) if isinstance(block.get("text"), str) else None


def _call(block: JsonObject, context: BlockContext) -> list[AssistantPart] | None:
    if not isinstance(name := block.get("name"), str):
        return None
    # A call that was cut off has only the beginning of its arguments, as text.
    raw = as_str(block.get("partialJson")) or arguments(block.get("arguments"))
    call = ToolCall(id=as_str(block.get("id")) or context.id, name=name, arguments=raw)
    signature = as_str(block.get("thoughtSignature"))
    return [ReasoningPart(provider=context.provider, signature=signature), call] if signature else [call]


def _reasoning(block: JsonObject, context: BlockContext) -> ReasoningPart | None:
    """Return a thought with its proof, which each API has in another form."""
    text, signature, provider = (
        block.get("thinking"),
        as_str(block.get("thinkingSignature")),
        context.provider,
    )
    if not isinstance(text, str):
        return None
    if provider == "openai" and (item := _json_in(signature)):
        encrypted = as_str(item.get("encrypted_content"))
        return ReasoningPart(text=text, provider=provider, id=as_str(item.get("id")), encrypted=encrypted)
    if block.get("redacted") is True:
        return ReasoningPart(text=text, provider=provider, encrypted=signature)
    # Elsewhere the field has the name that the provider gives its thoughts.
    proof = signature if provider in ("anthropic", "gemini") else ""
    return ReasoningPart(text=text, provider=provider, signature=proof)


_ANSWERS = PartTable[AssistantPart]("pi", {"text": _text, "thinking": _reasoning, "toolCall": _call})
INPUTS = PartTable[UserPart]("pi", {"text": text_maker(), "image": media_maker()})
"""Makers of a message by the user, and of a tool's output."""


def _json_in(value: Json) -> dict[str, Any]:
    text = as_str(value)
    if text.startswith("{"):
        with suppress(ValueError, RecursionError):
            return as_dict(json.loads(text))
    return {}


def usage_of(message: JsonObject) -> Usage | None:
    """Return the tokens of an answer; pi counts those of the cache beside the input, not in it."""
    counted = as_dict(message.get("usage"))
    read, write = as_int(counted.get("cacheRead")), as_int(counted.get("cacheWrite"))
    sent, output = as_int(counted.get("input")) + read + write, as_int(counted.get("output"))
    if not (sent or output):
        return None
    total = as_dict(counted.get("cost")).get("total")
    cost = as_int(round(total * _MICRO)) if isinstance(total, int | float) and total > 0 else None
    return Usage(input=sent, output=output, cache_read=read, cache_write=write, cost=cost)


def shell_text(message: JsonObject) -> str:
    """Return a command that a person ran, with its output, in the words that pi sends the model."""
    output, code = as_str(message.get("output")), message.get("exitCode")
    wording = f"Ran `{as_str(message.get('command'))}`\n" + (
        f"```\n{output}\n```" if output else "(no output)"
    )
    if message.get("cancelled") is True:
        wording += "\n\n(command cancelled)"
    elif isinstance(code, int) and code:
        wording += f"\n\nCommand exited with code {code}"
    if message.get("truncated") is True and (path := as_str(message.get("fullOutputPath"))):
        wording += f"\n\n[Output truncated. Full output: {path}]"
    return wording
