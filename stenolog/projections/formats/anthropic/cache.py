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


_5, _60 = caching.MINUTES_5, caching.HOUR
LAYOUTS = (
    caching.Layout("keep everything for an hour", {"cache": "1h"}, 0, _60, _60),
    caching.Layout("keep for five minutes only", {"cache": "5m"}, 0, _5, _5),
    caching.Layout("keep tools and instructions for an hour", {"cache": {"prefix": "1h"}}, 0, _60, _5),
    caching.Layout("keep only tools and instructions", {"cache": {"messages": False}}, 0, _5, 0),
    caching.Layout(
        "keep only tools and instructions, for an hour",
        {"cache": {"prefix": "1h", "messages": False}},
        0,
        _60,
    ),
    caching.Layout(
        "keep up to each of the last two messages of the user", {"cache": {"turns": 2}}, 0, _5, _5, 2
    ),
    caching.Layout(
        "keep up to each of the last two messages of the user, for an hour",
        {"cache": {"prefix": "1h", "messages": "1h", "turns": 2}},
        *(0, _60, _60, 2),
    ),
    caching.Layout("keep the tools by themselves too", {"cache": {"tools": "5m"}}, _5, _5, _5),
    caching.Layout("keep the tools for an hour", {"cache": {"tools": "1h"}}, _60, _5, _5),
    caching.Layout(
        "keep only the tools",
        {"cache": {"tools": "5m", "prefix": False, "messages": False}},
        _5,
    ),
    caching.Layout("keep nothing", {"cache": False}),
)


# A gateway or another provider behind this API reads the header; Anthropic itself takes it off.
CACHE = caching.CacheRules(
    blocks,
    models=("*claude*",),
    minimums=MINIMUMS,
    lookback=20,
    verdicts=VERDICTS,
    unread="x-anthropic-billing-header:",
    layouts=LAYOUTS,
)
