"""Fields of a message, their other spellings, and unknown fields.

What a message says beyond its event is in `meta`; what an event says beyond its message is in the message's
`stenolog`. Either is the difference to what the other form implies. Also: the settings of what models are
sent, and the `LLM_ERROR` block.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias, get_args

from stenolog.events import ErrorCategory, Purpose
from stenolog.importers import Json, as_dict, as_list, as_str, error_category

Message: TypeAlias = dict[str, Any]
MAIN = "assistant"
"""The agent of messages that name none."""
SYSTEM = "crewagent"
"""The system that an imported event's `source` names, and the key of what is kept in `meta`."""
FORM = "crewagent.form"
"""The key in `meta` of how the message was written: `lacks` and `spelled`."""
OURS = "stenolog"
"""The field of a message that the old app passes over: what its other fields cannot say of the event."""
SETTINGS = "settings"
"""The role in the `source` of a mode switch that is no message."""
JOIN = "join"
"""The role in the `source` of a mode switch by which an agent joins that an import found on its way."""
ACTIVE = "activeType"
"""The field of the index for the mode that is active now; also the `role` of a switch made only from it."""
SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "tool_calls": ("toolCalls",),
    "tool_call_id": ("toolCallId",),
    "includeInContext": ("include_in_context",),
    "partType": ("part_type",),
    "runId": ("run_id",),
    "nodeId": ("node_id",),
    "isError": ("is_error",),
    "agentId": ("agent_id",),
    "isCollapsed": ("is_collapsed",),
    "createdAt": ("timestamp", "created_at"),
    "updatedAt": ("updated_at",),
}
TOOL_SPELLINGS: Mapping[str, tuple[str, ...]] = {"toolName": ("name",), "duration": ("durationMs",)}
"""Other spellings in the result of a tool, where `name` is no author."""


class FieldDifference(NamedTuple):
    """A difference of two JSON objects: fields to set and to remove."""

    sets: Message
    lacks: tuple[str, ...] = ()

    def applied(self, base: Message) -> Message:
        """Return the base with the difference."""
        return {name: value for name, value in {**base, **self.sets}.items() if name not in self.lacks}


def difference(base: Message, wanted: Message) -> FieldDifference:
    """Return the difference that turns `base` into `wanted`."""
    sets = {name: value for name, value in wanted.items() if name not in base or not same(base[name], value)}
    return FieldDifference(sets, tuple(name for name in base if name not in wanted))


def same(one: Json, other: Json) -> bool:
    """Return whether two JSON values are equal; `true` is not 1, nor is 1.0."""
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
        case list(), list():
            return len(one) == len(other) and all(map(same, one, other))
        case _:
            return type(one) is type(other) and one == other


def read(message: Message, *only: str) -> tuple[Message, dict[str, str]]:
    """Return the fields by their own names, and the spellings used; one of two spellings counts."""
    spelled: dict[str, str] = {}
    is_result = message.get("role") in ("tool", "function")
    spellings = {**SPELLINGS, **TOOL_SPELLINGS} if is_result else SPELLINGS
    for name in only or spellings:
        found = next((other for other in spellings[name] if other in message), None)
        if name not in message and found is not None and found not in spelled.values():
            spelled[name] = found
    names = {found: name for name, found in spelled.items()}
    return {names.get(name, name): value for name, value in message.items()}, spelled


def extra_meta(base: Message, plain: Message, spelled: dict[str, str]) -> dict[str, Json]:
    """Return a `meta` with the message's fields beyond `base`, which its event implies."""
    found = difference(base, plain)
    form = {"lacks": list(found.lacks), "spelled": spelled}
    fields = {name: value for name, value in form.items() if value}
    return {**({SYSTEM: found.sets} if found.sets else {}), **({FORM: fields} if fields else {})}


def restored(base: Message, meta: Mapping[str, Json], since: Message) -> Message:
    """Return the original message, from what its event implies, its `meta` and later changes."""
    form = as_dict(meta.get(FORM))
    lacks = tuple(name for name in as_list(form.get("lacks")) if isinstance(name, str))
    spelled = {name: other for name, other in as_dict(form.get("spelled")).items() if isinstance(other, str)}
    whole = FieldDifference(as_dict(meta.get(SYSTEM)), lacks).applied(base) | since
    return {spelled.get(name, name): value for name, value in whole.items()}


CATEGORIES: tuple[ErrorCategory, ...] = get_args(ErrorCategory)
_BLOCK = re.compile(r"^LLM_ERROR\b[ \t]*:?", re.MULTILINE)
_FIELD = re.compile(r"^[-*]?[ \t]*(\w+)[ \t]*:[ \t]*(.*(?:\n[ \t]+\S.*)*)$", re.MULTILINE)
_KINDS = ("category", "type", "kind", "code", "status")
_REASONS = ("message", "error", "reason", "detail")


class ErrorBlock(NamedTuple):
    """A failed call: streamed text, category and reason."""

    text: str
    category: ErrorCategory
    message: str


def error_block(content: str) -> ErrorBlock | None:
    """Return the block that ends a message, with the text before it; None for other messages.

    The block may hold JSON, lines of keys and values, or plain words.
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
    """Return a failed call's message: the streamed text, then the block."""
    indented = message.replace("\n", "\n  ")
    block = "\n".join(["LLM_ERROR", f"- type: {category}", *([f"- message: {indented}"] if message else [])])
    return f"{text}\n\n{block}" if text else block


def category_of(kind: str, words: str) -> ErrorCategory:
    """Return the category that a failure names, else one from its kind or words."""
    known = next((each for each in CATEGORIES if each == kind), None)
    return known or error_category(f"{kind} {words}".strip())


def _fields(block: str) -> dict[str, str]:
    try:
        decoded: Json = json.loads(block)
    except ValueError:
        lines = {name.lower(): re.sub(r"\n[ \t]+", "\n", value) for name, value in _FIELD.findall(block)}
        return lines if lines.keys() & {*_KINDS, *_REASONS} else {}
    return {name: as_str(value) or str(value) for name, value in as_dict(decoded).items()}


PURPOSES: tuple[Purpose, ...] = ("summary", "memory", "routing")
ASIDE = ("widget", "mode_switch")
"""Message types that are only for the screen by default."""
SAID = ("llm_error", *PURPOSES)
"""Message types that models are shown, collapsed or not."""


class Shown(NamedTuple):
    """CrewAgent's settings of what models are sent: tool results, and events that the screen folds."""

    results: bool = True
    collapsed: bool = False

    @classmethod
    def stated(cls, about: Message) -> Shown:
        """Return the settings of an index entry."""
        return cls(
            about.get("includeToolResultsInContext") is not False,
            about.get("includeCollapsedUiEventsInContext") is True,
        )

    def in_context(self, plain: Message) -> bool:
        """Return whether models are sent a message: by its own field, else by its kind."""
        stated, role, kind = plain.get("includeInContext"), plain.get("role"), plain.get("partType")
        if isinstance(stated, bool):
            return stated
        # A collapsed call or result is protocol, whatever the screen makes of it.
        is_aside = role in ("assistant", "system") and plain.get("isCollapsed") is True
        if is_aside and not plain.get("tool_calls") and kind not in SAID:
            return self.collapsed
        return kind not in ASIDE
