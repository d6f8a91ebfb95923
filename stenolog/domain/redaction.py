"""Redaction: values under keys that an application names are replaced before an event is stored.

It looks through JSON: `meta`, the arguments of tool calls, and tool results and provider parts that are JSON
as a whole. Free text stays.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from .events import AssistantMessage, Event, LlmError, ToolResult, Unknown, UserMessage
from .parts import Part, ProviderPart, TextPart, ToolCall

REDACTED = "[redacted]"
"""The text in the place of a redacted value."""


def redacted(event: Event, keys: Collection[str]) -> Event:
    """Return the event without the values under the keys, which are in small letters."""
    if isinstance(event, Unknown):
        return event
    changes: dict[str, Any] = {}
    if (meta := without(event.meta, keys)) != event.meta:
        changes["meta"] = meta
    if isinstance(event, UserMessage | AssistantMessage | ToolResult | LlmError):
        parts = tuple(_part(part, keys, is_result=isinstance(event, ToolResult)) for part in event.parts)
        if parts != event.parts:
            changes["parts"] = parts
    if isinstance(event, UserMessage) and event.control is not None:
        control = event.control
        said = redacted_text(control.arguments, keys), redacted_text(control.answer, keys)
        if said != (control.arguments, control.answer):
            changes["control"] = replace(control, arguments=said[0], answer=said[1])
    changed: Event = replace(event, **changes) if changes else event
    return changed


def redacted_text(text: str, keys: Collection[str]) -> str:
    """Return a text that is JSON as a whole without the values under the keys; other text unchanged."""
    # Most texts are no JSON, and need not be parsed to see that.
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    changed = without(value, keys)
    # An unchanged text keeps its bytes.
    return text if changed == value else json.dumps(changed, ensure_ascii=False, separators=(",", ":"))


def without(value: Any, keys: Collection[str]) -> Any:
    """Return a JSON value with the values under the keys replaced; null stays null."""
    if isinstance(value, dict):
        return {
            # Null tells no secret, and says that there is none.
            key: REDACTED if key.casefold() in keys and inner is not None else without(inner, keys)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [without(inner, keys) for inner in value]
    return value


def _part(part: Any, keys: Collection[str], *, is_result: bool) -> Part:
    match part:
        case ToolCall(arguments=text, raw=raw) if (
            changed := (redacted_text(text, keys), redacted_text(raw, keys))
        ) != (text, raw):
            return replace(part, arguments=changed[0], raw=changed[1])
        case ProviderPart(raw=text) if (fields := redacted_text(text, keys)) != text:
            return replace(part, raw=fields)
        case TextPart(text=text, raw=raw) if (
            said := (redacted_text(text, keys) if is_result else text, redacted_text(raw, keys))
        ) != (text, raw):
            return replace(part, text=said[0], raw=said[1])
        case _:
            kept: Part = part
            return kept
