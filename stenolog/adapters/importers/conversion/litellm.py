"""Answers in LiteLLM's form, through which OpenHands and SWE-agent call models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stenolog.domain.parts import AssistantPart, ReasoningPart, TextPart
from stenolog.domain.values import Usage
from stenolog.projections.formats.anthropic.read import assistant_part
from stenolog.projections.formats.openai_chat.read import answer_parts, calls_in
from stenolog.projections.formats.openai_chat.stream import usage
from stenolog.projections.formats.openai_responses.read import assistant_parts
from stenolog.projections.messages.json_fields import Json, as_dict, as_int, as_list, as_str, micro_dollars


def litellm_answer(message: Mapping[str, Json], key: str) -> list[AssistantPart]:
    """Return an answer's non-blank parts; a call without an id gets one from `key`."""
    words = answer_parts({name: message.get(name) for name in ("content", "refusal")})
    said = (part for part in words if not isinstance(part, TextPart) or part.text.strip())
    return [*litellm_reasoning(message), *said, *calls_in(message, key)]


def litellm_reasoning(message: Mapping[str, Json]) -> list[AssistantPart]:
    """Return an answer's reasoning: Anthropic's blocks, OpenAI's item, or the words."""
    blocks = map(as_dict, as_list(message.get("thinking_blocks")))
    found = [assistant_part({"type": "thinking", **block}, "", "") for block in blocks]
    if item := as_dict(message.get("responses_reasoning_item")):
        lines = [{"text": each} if isinstance(each, str) else each for each in as_list(item.get("summary"))]
        found += assistant_parts({**item, "type": "reasoning", "summary": lines}, "", "")
    words = as_str(message.get("reasoning_content"))
    if words.strip() and not any(words.strip() in getattr(part, "text", "") for part in found):
        found.insert(0, ReasoningPart(text=words))
    return found


def litellm_usage(given: Json, dollars: Json = None) -> Usage | None:
    """Return an answer's tokens and cost, of any API; None if not counted."""
    counted = as_dict(given)
    counts = usage(counted) or Usage()
    written = counted.get("cache_write_tokens") or counted.get("cache_creation_input_tokens")
    used = replace(
        counts,
        cache_read=as_int(counted.get("cache_read_tokens")) or counts.cache_read,
        cache_write=as_int(written) or counts.cache_write,
        reasoning=as_int(counted.get("reasoning_tokens")) or counts.reasoning,
        cost=micro_dollars(dollars),
    )
    return used if used != Usage() else None
