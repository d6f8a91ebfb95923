"""Prompt cache of Anthropic: it keeps what is marked, in the order of tools, system text and messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stenolog.projections.messages.json_fields import as_list

from ..caching import (
    MARK,
    Block,
    CacheRules,
    Json,
    as_blocks,
    each,
    inner_setting,
    kept_for,
    kind_of,
    of_message,
    settings,
)

MINIMUMS: Mapping[str, int] = {
    "*claude-opus-4-[5-9]*": 4_096,
    "*claude-haiku-4-[5-9]*": 4_096,
    "*claude-sonnet-4-[6-9]*": 2_048,
    "*claude-3*haiku*": 2_048,
}
VERDICTS: Mapping[str, tuple[str, ...]] = {
    "model_changed": ("model",),
    "tools_changed": ("tools",),
    "system_changed": ("system",),
    "messages_changed": ("history", "compaction"),
}


def blocks(body: Json, messages_key: str) -> Iterator[Block]:
    """Yield the blocks of a body."""
    yield from each("tools", "/tools", body.get("tools"))
    yield from settings(body, "speed")
    yield from inner_setting(body, "output_config", "format")
    yield from each("system", "/system", as_blocks(body.get("system")), body.get("system"))
    yield from settings(body, "tool_choice", "thinking")
    found = [
        kind_of(one, ("thinking", "redacted_thinking"), ("tool_result",))
        for n, message in enumerate(as_list(body.get(messages_key)))
        for one in of_message(n, message, f"/{messages_key}/{n}", "content")
    ]
    if found and MARK in body:
        found[-1] = found[-1]._replace(keeps=max(found[-1].keeps, kept_for(body)))
    yield from found


# A gateway or another provider behind this API reads the header; Anthropic itself takes it off.
CACHE = CacheRules(
    blocks,
    models=("*claude*",),
    minimums=MINIMUMS,
    lookback=20,
    verdicts=VERDICTS,
    unread="x-anthropic-billing-header:",
)
