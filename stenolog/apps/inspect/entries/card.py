"""One entry in full: its words, its calls with their results, and its thoughts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import from_json, to_json

from stenolog.apps.views.figures import lasted
from stenolog.domain.events import AssistantMessage, LlmError, ToolResult
from stenolog.domain.parts import ReasoningPart, ToolCall
from stenolog.projections.views.calls import CallStatus, without_result
from stenolog.projections.views.lines import describe, in_words, kind_word, thoughts
from stenolog.projections.views.tool_pairs import CallKey

from .rows import bar

if TYPE_CHECKING:
    from stenolog.apps.inspect.query import Query
    from stenolog.domain.entry import Entry
    from stenolog.domain.parts import Part

LONGEST = 20_000
"""The most characters of a text; the page of the entry has all of it."""
LONGEST_RESULT = 4_000
"""The most characters of a result that is shown with its call."""


class ShownCall(NamedTuple):
    """A tool call with its result; `result` is the result's position, 0 without one."""

    name: str
    arguments: str
    position: int
    result: int
    status: CallStatus
    note: str
    words: str
    took: str
    bar: int


def card(query: Query) -> dict[str, Any]:
    """Return what the template shows of the entry at the position."""
    entry = query.conversation.entry(query.at)
    who, what = describe(entry)
    event = entry.event
    calls: list[ShownCall] = []
    if isinstance(event, AssistantMessage):
        calls = list(_calls(query, entry, event.tool_calls, None))
        what = _words_of(event.parts)
    elif isinstance(event, ToolResult):
        pair = query.index.results.get(entry.position)
        called = query.conversation.entry(pair.call) if pair else None
        who = event.name or (pair.tool if pair else who)
        what = "" if pair else in_words(event.parts)
        if pair and called and isinstance(called.event, AssistantMessage):
            calls = list(_calls(query, called, called.event.tool_calls, pair.nth))
    elif isinstance(event, LlmError):
        what = what.removesuffix(thoughts(event))
    return {
        "card": {
            "kind": kind_word(event),
            "fault": query.index.outcome(entry).note if isinstance(event, ToolResult) and not calls else "",
            "who": who,
            "time": f"{entry.time:%Y-%m-%d %H:%M:%S}",
            "words": _cut(what, LONGEST),
            "thoughts": _cut(_thoughts(event), LONGEST),
            "calls": calls,
            "facts": list(_facts(event)),
        }
    }


def _words_of(parts: Sequence[Part]) -> str:
    return "\n".join(
        in_words([part]) for part in parts if not isinstance(part, ReasoningPart | ToolCall)
    ).strip()


def _thoughts(event: object) -> str:
    parts = event.parts if isinstance(event, AssistantMessage | LlmError) else ()
    return "\n\n".join(part.text for part in parts if isinstance(part, ReasoningPart) and part.text)


def _calls(query: Query, entry: Entry, calls: Sequence[ToolCall], only: int | None) -> Iterable[ShownCall]:
    index = query.index
    for nth, call in enumerate(calls):
        if only not in (None, nth):
            continue
        at = index.calls.get((entry.position, nth), 0)
        words, outcome = "", without_result(CallKey(entry.position, nth), query.open_calls)
        if at:
            result = query.conversation.entry(at)
            words, outcome = in_words(getattr(result.event, "parts", ())), index.outcome(result)
        took = index.results[at].took if at else None
        shown = _cut(words, LONGEST if only is not None else LONGEST_RESULT)
        arguments = _cut(_indented(call.arguments), LONGEST)
        yield ShownCall(call.name, arguments, entry.position, at, *outcome, shown, lasted(took), bar(took))


def _indented(arguments: str) -> str:
    """Return the arguments of a call for a reader: JSON indented, a single text as it is."""
    try:
        found = from_json(arguments)
    except ValueError:
        return arguments
    if isinstance(found, dict) and len(found) == 1 and isinstance(text := next(iter(found.values())), str):
        return f"{next(iter(found))}: {text}"
    return to_json(found, indent=2).decode()


def _facts(event: object) -> Iterable[str]:
    if isinstance(event, AssistantMessage | LlmError):
        if event.model:
            yield event.model
        if event.usage is not None and (event.usage.input or event.usage.output):
            used = event.usage
            yield f"{used.input:,} tokens in" + (
                f", {used.cache_read:,} of them from the cache" if used.cache_read else ""
            )
            yield f"{used.output:,} out"
        if event.duration_ms:
            yield lasted(event.duration_ms)
    if isinstance(event, AssistantMessage) and event.finish_reason:
        yield event.finish_reason


def _cut(words: str, most: int) -> str:
    return words if len(words) <= most else f"{words[:most]}\n… and {len(words) - most:,} characters more"
