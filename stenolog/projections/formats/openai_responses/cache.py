"""Prompt cache of OpenAI's Responses: that of Chat Completions, with other settings and instructions."""

from __future__ import annotations

from collections.abc import Iterator

from ..caching import Block, Json, block, inner_setting, settings
from ..openai_chat.cache import CACHE as CHAT
from ..openai_chat.cache import of_messages


def blocks(body: Json, messages_key: str) -> Iterator[Block]:
    """Yield the blocks of a body."""
    yield from settings(body, "prompt_cache_key", "response_format")
    yield from inner_setting(body, "text", "format")
    if "instructions" in body:
        yield block("system", "/instructions", body["instructions"])
    yield from of_messages(body, messages_key)


CACHE = CHAT._replace(blocks=blocks)
