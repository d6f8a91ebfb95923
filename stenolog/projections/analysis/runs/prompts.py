"""Difference of the requests that two runs sent before one step, part by part with the entries of both."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, Event, ToolResult
from stenolog.domain.parts import call_text
from stenolog.domain.values import Usage
from stenolog.projections.requests import Request

from ..cache.changes import PartChange, Twins
from ..cache.difference import RequestDiff, diff
from .comparison import Comparison

WORD = re.compile(r"[\w.:~-]+")


def prompt_difference(
    before: Request,
    after: Request,
    logs: tuple[Sequence[Entry], Sequence[Entry]],
    comparison: Comparison,
    card: AgentCard | None = None,
    usage: Usage | None = None,
) -> RequestDiff:
    """Return the difference between the requests of two runs; ids of the same call make none.

    `comparison` is that of the logs, `card` and `usage` as in `diff`.
    """
    known = {*comparison.twins.values()}
    between = [entry for entry in logs[1] if entry.position <= after.at and entry.position not in known]
    pairs = {each.before: each.after for each in comparison.divergences if each.before and each.after}
    both = pairs | {**comparison.twins}
    ids = _ids(*logs, both)
    renamed = before.with_body(_renamed(before.body, ids), None) if ids else before
    found = diff(renamed, after, between, card, usage, Twins(both))
    return found._replace(changes=tuple(each for each in found.changes if not _is_same(each, known)))


def _is_same(change: PartChange, known: Collection[int]) -> bool:
    """Return whether a part of a step that both runs made differs only in its order or in its neighbours."""
    if change.sign != "~" or change.was != change.rule or change.first not in known:
        return False
    one, other = (Counter(WORD.findall(text)) for text in (change.text_before, change.text))
    # A part that shares its message with another one has no text of its own.
    return one == other or not one or not other


def _ids(before: Iterable[Entry], after: Iterable[Entry], both: Mapping[int, int]) -> dict[str, str]:
    """Return the ids of the second run's calls, by those of the same calls in the first."""
    by_position = {entry.position: entry.event for entry in after}
    pairs = [(entry.event, by_position[both[entry.position]]) for entry in before if entry.position in both]
    found = {
        one.call_id: other.call_id
        for one, other in pairs
        if isinstance(one, ToolResult) and isinstance(other, ToolResult)
    }
    for one, other in pairs:
        mine, theirs = (_calls(event, known) for event, known in ((one, found), (other, found.values())))
        for text, ids in mine.items():
            found.update(zip(ids, theirs[text], strict=False))
    return {one: other for one, other in found.items() if one != other}


def _calls(event: Event, known: Collection[str]) -> dict[str, list[str]]:
    """Return the ids of an answer's calls that are not known yet, by what they call."""
    found: dict[str, list[str]] = defaultdict(list)
    for call in event.tool_calls if isinstance(event, AssistantMessage) else ():
        if call.id not in known:
            found[call_text(call)].append(call.id)
    return found


def _renamed(value: Any, ids: Mapping[str, str]) -> Any:
    match value:
        case dict():
            return {key: _renamed(inner, ids) for key, inner in value.items()}
        case list():
            return [_renamed(inner, ids) for inner in value]
        case str():
            return WORD.sub(lambda word: ids.get(word[0], word[0]), value)
        case _:
            return value
