"""Tokens by Codex's names in its files and lines."""

from __future__ import annotations

from stenolog.domain.values import Usage
from stenolog.projections.messages.json_fields import Json, as_int


def usage(counted: Json) -> Usage | None:
    """Return the tokens; OpenAI's totals include cache reads and reasoning."""
    if not isinstance(counted, dict):
        return None
    return Usage(
        input=as_int(counted.get("input_tokens")),
        output=as_int(counted.get("output_tokens")),
        cache_read=as_int(counted.get("cached_input_tokens")),
        reasoning=as_int(counted.get("reasoning_output_tokens")),
    )
