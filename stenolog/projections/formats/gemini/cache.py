"""Prompt cache of Gemini: system text, tools, then contents; it needs no marks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stenolog.projections.messages.json_fields import as_list

from ..caching import Block, CacheRules, Json, block, each, inner_setting, of_message, settings


def blocks(body: Json, messages_key: str) -> Iterator[Block]:
    """Yield the blocks of a body."""
    yield from settings(body, "cachedContent")
    for key in ("systemInstruction", "system_instruction"):
        if key in body:
            given = body[key]
            parts = given.get("parts") if isinstance(given, Mapping) else None
            yield from each("system", f"/{key}/parts", parts, given)
    for n, tool in enumerate(as_list(body.get("tools"))):
        for key in ("functionDeclarations", "function_declarations"):
            if isinstance(tool, Mapping) and key in tool:
                yield from each("tools", f"/tools/{n}/{key}", tool[key])
                break
        else:
            yield block("tools", f"/tools/{n}", tool)
    yield from settings(body, "toolConfig", "tool_config")
    yield from inner_setting(body, "generationConfig", "responseSchema", "responseJsonSchema")
    for n, message in enumerate(as_list(body.get(messages_key))):
        yield from map(_with_kind, of_message(n, message, f"/{messages_key}/{n}", "parts"))


def _with_kind(one: Block) -> Block:
    value = one.value if isinstance(one.value, Mapping) else {}
    if value.get("thought") is True:
        return one._replace(kind="thought")
    return one._replace(kind="result") if "functionResponse" in value else one


CACHE = CacheRules(blocks, models=("*gemini*",), minimums={"*gemini-2.5-pro*": 2_048})
