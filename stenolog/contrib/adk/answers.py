"""Contents of an agent's answer to parts, and ADK's codes of errors to categories."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from stenolog.events import ErrorCategory
from stenolog.importers import as_dict, as_str, gemini_answer_part
from stenolog.parts import AssistantPart, ReasoningPart, TextPart, ToolCall

PROVIDER = "gemini"
_CATEGORIES: dict[str, ErrorCategory] = {
    **dict.fromkeys(
        ("SAFETY", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "RECITATION", "IMAGE_SAFETY"), "refused"
    ),
    **dict.fromkeys(
        ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MAX_TOKENS", "OTHER", "LANGUAGE"),
        "invalid_response",
    ),
    "RESOURCE_EXHAUSTED": "rate_limited",
    "UNAVAILABLE": "overloaded",
    "DEADLINE_EXCEEDED": "timeout",
    "CANCELLED": "cancelled",
    "UNAUTHENTICATED": "unauthorized",
    "PERMISSION_DENIED": "unauthorized",
    "INVALID_ARGUMENT": "invalid_request",
}


def category_of(code: str) -> ErrorCategory | None:
    """Return the category of an error code; None for one that no API documents."""
    return _CATEGORIES.get(code.rpartition(".")[2])


def answer_parts(
    raw_parts: Iterable[dict[str, Any]], model: str, id_of: Callable[[int, str], str]
) -> list[AssistantPart]:
    """Return the parts of an answer; `id_of` makes an id for a call without one, of its number and name.

    Fragments of one text that follow each other are one part. A signature is put at the thought directly
    before the part that it came with, where requests look for it.
    """
    parts: list[AssistantPart] = []
    for nth, part in enumerate(raw_parts):
        signature = as_str(part.get("thoughtSignature"))
        call = as_dict(part.get("functionCall"))
        id = as_str(call.get("id")) or (id_of(nth, as_str(call.get("name"))) if call else "")
        new_part = gemini_answer_part(part, PROVIDER, model, id)
        if signature and not isinstance(new_part, ReasoningPart):
            _sign(parts, signature)
        if isinstance(new_part, TextPart) and new_part.text == "" and signature:
            continue
        parts.append(new_part)
    return parts


def _sign(parts: list[AssistantPart], signature: str) -> None:
    """Put a signature on the last part if it is an unsigned thought, else on an empty thought behind it."""
    last = parts[-1] if parts else None
    if isinstance(last, ReasoningPart) and not last.signature:
        parts[-1] = replace(last, signature=signature)
    else:
        parts.append(ReasoningPart(provider=PROVIDER, signature=signature))


def joined(parts: Iterable[AssistantPart]) -> list[AssistantPart]:
    """Return the parts of fragments that stream: what follows each other in one kind is one part."""
    found: list[AssistantPart] = []
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, TextPart) and isinstance(last, TextPart):
            found[-1] = replace(last, text=last.text + part.text)
        elif isinstance(part, ReasoningPart) and isinstance(last, ReasoningPart) and not last.signature:
            found[-1] = replace(part, text=last.text + part.text)
        elif not isinstance(part, ToolCall):
            found.append(part)
    return found
