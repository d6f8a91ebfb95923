"""Difference of the requests that two runs sent before one step, part by part with the entries of both."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry
from stenolog.domain.values import Usage
from stenolog.projections.requests import Request

from ..cache.changes import Twins
from ..cache.difference import RequestDiff, diff
from .steps import call_text


def prompt_difference(
    before: Request,
    after: Request,
    logs: tuple[Sequence[Entry], Sequence[Entry]],
    twins: Mapping[int, int],
    card: AgentCard | None = None,
    usage: Usage | None = None,
) -> RequestDiff:
    """Return the difference between the requests of two runs; ids of the same call make none.

    `twins` are the positions of the same steps, `card` and `usage` as in `diff`.
    """
    known = {*twins.values()}
    between = [entry for entry in logs[1] if entry.position <= after.at and entry.position not in known]
    ids = _ids(*logs, twins)
    renamed = before.with_body(_renamed(before.body, ids), None) if ids else before
    return diff(renamed, after, between, card, usage, Twins(twins))


def _ids(before: Iterable[Entry], after: Iterable[Entry], twins: Mapping[int, int]) -> dict[str, str]:
    """Return the ids of the second run's calls, by those of the same calls in the first."""
    found = {}
    by_position = {entry.position: entry for entry in after}
    for entry in before:
        if entry.position not in twins:
            continue
        waiting: dict[str, deque[str]] = defaultdict(deque)
        for call in getattr(by_position[twins[entry.position]].event, "tool_calls", ()):
            waiting[call_text(asdict(call))].append(call.id)
        for call in getattr(entry.event, "tool_calls", ()):
            if (same := waiting[call_text(asdict(call))]) and (id := same.popleft()) != call.id:
                found[call.id] = id
    return found


def _renamed(value: Any, ids: Mapping[str, str]) -> Any:
    match value:
        case dict():
            return {key: _renamed(inner, ids) for key, inner in value.items()}
        case list():
            return [_renamed(inner, ids) for inner in value]
        case str():
            return ids.get(value, value)
        case _:
            return value
