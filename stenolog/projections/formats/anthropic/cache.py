"""Prompt cache of Anthropic: it keeps what is marked, in the order of tools, system text and messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stenolog.projections.messages.json_fields import as_list

from .. import caching

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


def blocks(body: caching.Json, messages_key: str) -> Iterator[caching.Block]:
    """Yield the blocks of a body."""
    yield from caching.each("tools", "/tools", body.get("tools"))
    yield from caching.settings(body, "speed")
    yield from caching.inner_setting(body, "output_config", "format")
    yield from caching.each("system", "/system", caching.as_blocks(body.get("system")), body.get("system"))
    yield from caching.settings(body, "tool_choice", "thinking")
    found = [
        caching.kind_of(one, ("thinking", "redacted_thinking"), ("tool_result",))
        for n, message in enumerate(as_list(body.get(messages_key)))
        for one in caching.of_message(n, message, f"/{messages_key}/{n}", "content")
    ]
    if found and caching.MARK in body:
        found[-1] = found[-1]._replace(keeps=max(found[-1].keeps, caching.kept_for(body)))
    yield from found


# A gateway or another provider behind this API reads the header; Anthropic itself takes it off.
CACHE = caching.CacheRules(
    blocks,
    models=("*claude*",),
    minimums=MINIMUMS,
    lookback=20,
    verdicts=VERDICTS,
    unread="x-anthropic-billing-header:",
)
