"""Prompt cache of OpenAI: system text, tools, then messages; it needs no marks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..caching import IDLE, Block, CacheRules, Json, Layout, Section, block, each, kind_of, role_of, settings

REASONING = ("reasoning", "reasoning_content", "reasoning_details")
"""The keys of a message for its thinking, at one provider or another."""
DAY = 86_400
LIFETIMES: Mapping[object, int] = {"30m": 1_800, "12h": 43_200}
"""Seconds for which a beginning is kept, by what is asked for in `prompt_cache_options`."""
VERDICTS: Mapping[str, tuple[str, ...]] = {
    "model_changed": ("model",),
    "tools_changed": ("tools",),
    "input_changed": ("system", "history", "compaction"),
    "context_compacted": ("compaction",),
    **dict.fromkeys(
        (
            "prompt_cache_key_changed",
            "text_format_changed",
            "reasoning_effort_changed",
            "verbosity_changed",
            "service_tier_changed",
        ),
        ("setting",),
    ),
}


def blocks(body: Json, messages_key: str) -> Iterator[Block]:
    """Yield the blocks of a body."""
    yield from settings(body, "prompt_cache_key", "response_format")
    yield from of_messages(body, messages_key)


def of_messages(body: Json, messages_key: str) -> Iterator[Block]:
    """Yield the first system messages, the tools, then other messages."""
    given = body.get(messages_key)
    # A text alone is one message.
    messages = given if isinstance(given, list) else [] if given is None else [given]
    of_list = messages is given
    pointers = [f"/{messages_key}/{n}" if of_list else f"/{messages_key}" for n in range(len(messages))]
    system = (n for n, message in enumerate(messages) if role_of(message) not in ("system", "developer"))
    first = next(system, len(messages))
    for n in range(first):
        yield from _message("system", pointers[n], messages[n], n)
    yield from each("tools", "/tools", body.get("tools"))
    for n in range(first, len(messages)):
        yield from _message("messages", pointers[n], messages[n], n)


def _message(section: Section, pointer: str, message: Any, n: int) -> Iterator[Block]:
    """Yield a message's blocks: its thinking, and the rest without ids, which no model reads."""
    if not isinstance(message, Mapping):
        yield block(section, pointer, message)._replace(message=n)
        return
    for key in REASONING:
        if key in message:
            yield block(section, f"{pointer}/{key}", message[key])._replace(message=n, kind="thought")
    read = {key: value for key, value in message.items() if key != "id" and key not in REASONING}
    one = block(section, pointer, read)._replace(message=n)
    is_result = role_of(message) == "tool"
    known = kind_of(one, ("reasoning",), ("function_call_output", "custom_tool_call_output"))
    yield one._replace(kind="result") if is_result else known


def lifetime(body: Json) -> int:
    """Return the seconds for which a body asks to keep a beginning."""
    options = body.get("prompt_cache_options")
    if isinstance(options, Mapping) and (seconds := LIFETIMES.get(options.get("ttl"))):
        return seconds
    return DAY if body.get("prompt_cache_retention") == "24h" else IDLE


LAYOUTS = (Layout("keep prompts for a day, if the model can", {"prompt_cache_retention": "24h"}, idle=DAY),)
CACHE = CacheRules(blocks, lifetime=lifetime, verdicts=VERDICTS, layouts=LAYOUTS)
