"""Which result belongs to which tool call.

A result that names its call belongs to it; one that does not belongs to the nearest call before it
that has its id and no result yet. Ids repeat in real logs, so a call is known by its entry and its
place among that entry's calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, ToolResult


class CallKey(NamedTuple):
    """One tool call: the position of its entry, and its place among that entry's calls."""

    position: int
    nth: int


class Pairing(NamedTuple):
    """The call of each result (by the result's position; None: it has none), the position of each call's
    first result, and the results without a call of their own whose id has been called before.
    """

    calls: dict[int, CallKey | None]
    results: dict[CallKey, int]
    second: set[int]


def pair(entries: Iterable[Entry]) -> Pairing:
    """Pair every result of the log with its call."""
    by_entry: dict[str, int] = {}
    open_by_id: dict[str, list[CallKey]] = {}
    pairing = Pairing({}, {}, set())
    for entry in entries:
        match entry.event:
            case AssistantMessage(tool_calls=calls) if calls:
                by_entry[entry.id] = entry.position
                for nth in reversed(range(len(calls))):
                    open_by_id.setdefault(calls[nth].id, []).append(CallKey(entry.position, nth))
            case ToolResult() as result:
                key = _call_of(result, by_entry, open_by_id)
                pairing.calls[entry.position] = key
                if key is not None:
                    pairing.results[key] = entry.position
                elif result.call_id in open_by_id:
                    pairing.second.add(entry.position)
            case _:
                pass
    return pairing


def _call_of(
    result: ToolResult, by_entry: dict[str, int], open_by_id: dict[str, list[CallKey]]
) -> CallKey | None:
    waiting = open_by_id.get(result.call_id, [])
    if result.call is None:
        return waiting.pop() if waiting else None
    position = by_entry.get(result.call.entry)
    key = CallKey(position, result.call.index) if position is not None else None
    if key is None or key not in waiting:
        return None
    waiting.remove(key)
    return key
