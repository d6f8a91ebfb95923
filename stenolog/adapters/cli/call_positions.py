"""Positions of a call's result, and of a result's call, for `show`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from stenolog.adapters.queries.backwards import backwards
from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, ToolResult
from stenolog.projections.tool_pairs import CallKey, ToolCallIndex, pair

if TYPE_CHECKING:
    from stenolog.adapters.log import Conversation

NEAR = 1000
"""A result is looked for among so many entries behind its call, and a call among so many before it."""


def results_of(conversation: Conversation, entry: Entry) -> dict[int, int]:
    """Return the positions of the results of an entry's calls, by the calls' places in it."""
    if not isinstance(entry.event, AssistantMessage) or not entry.event.tool_calls:
        return {}
    behind = islice(conversation.entries(after=entry.position), NEAR)
    return _paired(entry, behind, len(entry.event.tool_calls))


def _paired(entry: Entry, behind: Iterable[Entry], calls: int) -> dict[int, int]:
    index, found = ToolCallIndex(), dict[int, int]()
    index.take(entry)
    for later in behind:
        made = index.take(later)
        if made and made.call and made.call.key.position == entry.position:
            found[made.call.key.nth] = later.position
            if len(found) == calls:
                break
    return found


def call_of(conversation: Conversation, entry: Entry) -> CallKey | None:
    """Return the call that a result answers; None for any other entry, and where the call is not near."""
    if not isinstance(entry.event, ToolResult):
        return None
    seen = [entry]
    for earlier in islice(backwards(conversation, entry.position - 1), NEAR):
        seen.append(earlier)
        if _may_be_called(earlier, entry.event) and (key := pair(reversed(seen)).calls[entry.position]):
            return key
    return None


def _may_be_called(entry: Entry, result: ToolResult) -> bool:
    """Return whether the entry may have the call of a result: it is named by it, or has its id."""
    if not isinstance(entry.event, AssistantMessage):
        return False
    if result.call is not None:
        return result.call.entry == entry.id
    return any(call.id == result.call_id for call in entry.event.tool_calls)
