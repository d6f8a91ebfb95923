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


class _Calls(NamedTuple):
    """The calls so far: the position of each entry, the id of each call, and those without a result by id."""

    entries: dict[str, int]
    ids: dict[CallKey, str]
    waiting: dict[str, list[CallKey]]


def pair(entries: Iterable[Entry]) -> Pairing:
    """Pair every result of the log with its call."""
    calls = _Calls({}, {}, {})
    pairing = Pairing({}, {}, set())
    for entry in entries:
        match entry.event:
            case AssistantMessage() as said:
                _add(calls, entry, said)
            case ToolResult() as result:
                key = _call_of(result, calls)
                pairing.calls[entry.position] = key
                if key is not None:
                    pairing.results[key] = entry.position
                elif result.call_id in calls.waiting:
                    pairing.second.add(entry.position)
            case _:
                pass
    return pairing


def _add(calls: _Calls, entry: Entry, said: AssistantMessage) -> None:
    calls.entries[entry.id] = entry.position
    for nth, call in reversed([*enumerate(said.tool_calls)]):  # so that the last of a list is the nearest
        key = CallKey(entry.position, nth)
        calls.ids[key] = call.id
        calls.waiting.setdefault(call.id, []).append(key)


def _call_of(result: ToolResult, calls: _Calls) -> CallKey | None:
    if result.call is None:
        waiting = calls.waiting.get(result.call_id)
        return waiting.pop() if waiting else None
    key = CallKey(calls.entries.get(result.call.entry, 0), result.call.index)
    if key not in calls.ids or key not in calls.waiting[calls.ids[key]]:
        return None
    calls.waiting[calls.ids[key]].remove(key)
    return key
