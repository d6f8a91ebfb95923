"""CrewAgent's settings of what models are sent, what a message says of that, and its `LLM_ERROR` block."""

from __future__ import annotations

import json
import re
from typing import NamedTuple, get_args

from stenolog.events import ErrorCategory, Purpose
from stenolog.importers import Json, as_dict, as_str, error_category

from .schema import Message

CATEGORIES: tuple[ErrorCategory, ...] = get_args(ErrorCategory)
_BLOCK = re.compile(r"^LLM_ERROR\b[ \t]*:?", re.MULTILINE)
_FIELD = re.compile(r"^[-*]?[ \t]*(\w+)[ \t]*:[ \t]*(.*(?:\n[ \t]+\S.*)*)$", re.MULTILINE)
_KINDS = ("category", "type", "kind", "code", "status")
_REASONS = ("message", "error", "reason", "detail")


class ErrorBlock(NamedTuple):
    """A failed call: the text that had streamed, the category, and the reason in words."""

    text: str
    category: ErrorCategory
    message: str


def error_block(content: str) -> ErrorBlock | None:
    """Return the block that ends a message, with the text before it; None for any other message.

    The block may hold JSON, lines with a key and a value, or plain words.
    """
    found = _BLOCK.search(content)
    if found is None:
        return None
    said = content[found.end() :].strip()
    fields = _fields(said)
    kind = next((fields[name] for name in _KINDS if name in fields), "")
    words = next((fields[name] for name in _REASONS if name in fields), "" if fields else said)
    return ErrorBlock(content[: found.start()].strip("\n"), category_of(kind, words), words)


def with_block(text: str, category: ErrorCategory, message: str) -> str:
    """Return the content of a failed call's message: the streamed text, and the block."""
    indented = message.replace("\n", "\n  ")
    block = "\n".join(["LLM_ERROR", f"- type: {category}", *([f"- message: {indented}"] if message else [])])
    return f"{text}\n\n{block}" if text else block


def category_of(kind: str, words: str) -> ErrorCategory:
    """Return the category that a failure names, else the one that its kind or its words mean."""
    known = next((each for each in CATEGORIES if each == kind), None)
    return known or error_category(f"{kind} {words}".strip())


def _fields(block: str) -> dict[str, str]:
    """Return the fields of a block, by their names in lower case."""
    try:
        told: Json = json.loads(block)
    except ValueError:
        lines = {name.lower(): re.sub(r"\n[ \t]+", "\n", value) for name, value in _FIELD.findall(block)}
        return lines if lines.keys() & {*_KINDS, *_REASONS} else {}
    return {name: as_str(value) or str(value) for name, value in as_dict(told).items()}


PURPOSES: tuple[Purpose, ...] = ("summary", "memory", "routing")
ASIDE = ("widget", "mode_switch")
"""Message types that are only for the screen by default."""
SAID = ("llm_error", *PURPOSES)
"""Message types that models are told, collapsed or not."""


class Shown(NamedTuple):
    """CrewAgent's settings of what models are sent: results of tools, and events that the screen folds."""

    results: bool = True
    collapsed: bool = False

    @classmethod
    def stated(cls, about: Message) -> Shown:
        """Return the settings that stand in an entry of the index."""
        return cls(
            about.get("includeToolResultsInContext") is not False,
            about.get("includeCollapsedUiEventsInContext") is True,
        )

    def in_context(self, plain: Message) -> bool:
        """Return whether models are sent a message, by its own word or else by what it is."""
        stated, role, kind = plain.get("includeInContext"), plain.get("role"), plain.get("partType")
        if isinstance(stated, bool):
            return stated
        # A collapsed call or result is protocol, whatever the screen makes of it.
        is_aside = role in ("assistant", "system") and plain.get("isCollapsed") is True
        if is_aside and not plain.get("tool_calls") and kind not in SAID:
            return self.collapsed
        return kind not in ASIDE
