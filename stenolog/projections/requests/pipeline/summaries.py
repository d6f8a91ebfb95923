"""Summaries as a lane is shown them: whether one is for it, and which entries it hides.

A summary hides an entry from a lane if it was made for that lane, and its author was sent the entry. One that
an agent made for itself hides nothing from others, who are not shown it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.lanes.state import Summary, without
from stenolog.domain.settings import DEFAULT_SCOPE, Settings
from stenolog.domain.values import PositionRange
from stenolog.projections.views.context import read_context
from stenolog.projections.views.tool_pairs import ToolCallIndex

from .edits import placed
from .lane import LaneId
from .visibility import exclusion_rule


class Scopes(NamedTuple):
    """The scopes from a position on: all agents', and single ones'."""

    position: int
    scope: str
    scopes: dict[str, str]


class Before(NamedTuple):
    """The view of a lane before a summary: its entries, and what decides who else was shown them."""

    lane: LaneId
    entries: Sequence[Entry]
    settings: Settings
    pairing: ToolCallIndex
    scopes: Sequence[Scopes]
    pass_token: str


def hiding(summary: Summary, before: Before) -> Summary | None:
    """Return a summary as it counts for a lane: without what its author was not sent; None if empty."""
    agent, _, task = summary.author.partition("/")
    unsent = [PositionRange(first=at, last=at) for at in _unsent(summary, LaneId(agent, task), before)]
    spans = without(summary.spans, unsent)
    return Summary(summary.position, before.lane.address, spans) if spans else None


def _unsent(summary: Summary, author: LaneId, before: Before) -> Iterator[int]:
    context = read_context(before.entries, before.settings, before.pairing, (), author.agent)
    gone = {at for at, (rule, _) in context.out.items() if rule != "replaced"}
    gone |= placed(before.entries, author, context.edits, gone).replaced
    for entry in before.entries:
        if summary.covers(entry.position):
            is_own = author.address == before.lane.address
            if entry.position in gone or not (is_own or _is_shown(entry, author, before)):
                yield entry.position


def _is_shown(entry: Entry, author: LaneId, before: Before) -> bool:
    pair = before.pairing.pairs.get(entry.position)
    held = [each for each in before.scopes if each.position <= entry.position]
    scope = held[-1].scopes.get(author.agent, held[-1].scope) if held else DEFAULT_SCOPE
    return not exclusion_rule(entry.event, author, scope, pair.call if pair else None, before.pass_token)
