"""Contents of an agent's answer to parts, and ADK's codes of errors to categories."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stenolog.events import ErrorCategory
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
