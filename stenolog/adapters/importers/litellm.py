"""Reasoning in the form of LiteLLM, through which OpenHands and SWE-agent call models."""

from __future__ import annotations

from collections.abc import Mapping

from stenolog.domain.parts import AssistantPart, ReasoningPart
from stenolog.projections.formats.anthropic.read import assistant_part
from stenolog.projections.formats.openai_responses.read import assistant_parts
from stenolog.projections.messages.json_fields import Json, as_dict, as_list, as_str


def litellm_reasoning(message: Mapping[str, Json]) -> list[AssistantPart]:
    """Return the reasoning of an answer: Anthropic's blocks, OpenAI's item, or only the words."""
    blocks = map(as_dict, as_list(message.get("thinking_blocks")))
    found = [assistant_part({"type": "thinking", **block}, "", "") for block in blocks]
    if item := as_dict(message.get("responses_reasoning_item")):
        lines = [{"text": each} if isinstance(each, str) else each for each in as_list(item.get("summary"))]
        found += assistant_parts({**item, "type": "reasoning", "summary": lines}, "", "")
    words = as_str(message.get("reasoning_content"))
    if words.strip() and not any(words.strip() in getattr(part, "text", "") for part in found):
        found.insert(0, ReasoningPart(text=words))
    return found
