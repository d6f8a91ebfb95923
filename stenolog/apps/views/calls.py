"""The calls of an entry with their results, read from the entries around it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from stenolog.adapters.conversation.queries.backwards import backwards
from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, ToolResult
from stenolog.domain.parts import ToolCall
from stenolog.projections.views.calls import CallOutcome, of_result, open_calls, without_result
from stenolog.projections.views.tool_pairs import CallKey, Pair, ToolCallIndex, pair

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation

NEAR = 1000
"""A result is looked for among so many entries after its call, and a call among so many before it."""


class CallLine(NamedTuple):
    """A call with its outcome; `result` is the position of its result, 0 without one."""

    call: ToolCall
    outcome: CallOutcome
    result: int


class ResultLine(NamedTuple):
    """A result with its outcome, and its call's key; None if the call is not near."""

    outcome: CallOutcome
    key: CallKey | None
    tool: str


def calls_of(conversation: Conversation, entry: Entry) -> list[CallLine]:
    """Return the calls of an entry, in their order."""
    if not isinstance(entry.event, AssistantMessage) or not entry.event.tool_calls:
        return []
    found = dict(_results(conversation, entry, len(entry.event.tool_calls)))
    open = open_calls(conversation.state()) if len(found) < len(entry.event.tool_calls) else {}
    return [
        CallLine(call, *found.get(nth) or (without_result(CallKey(entry.position, nth), open), 0))
        for nth, call in enumerate(entry.event.tool_calls)
    ]


def _results(
    conversation: Conversation, entry: Entry, calls: int
) -> Iterator[tuple[int, tuple[CallOutcome, int]]]:
    index, left = ToolCallIndex(), calls
    index.take(entry)
    for later in islice(conversation.entries(after=entry.position), NEAR):
        taken = index.take(later)
        if taken and taken.call and taken.call.key.position == entry.position:
            assert isinstance(later.event, ToolResult)
            yield taken.call.key.nth, (of_result(later.event, taken), later.position)
            left -= 1
            if not left:
                return


def result_of(conversation: Conversation, entry: Entry) -> ResultLine | None:
    """Return a result with its call; None for any other entry.

    A result whose call is not near counts as one without a call.
    """
    if not isinstance(entry.event, ToolResult):
        return None
    found = _pair(conversation, entry, entry.event)
    key, tool = (found.call.key, found.call.name) if found and found.call else (None, "")
    return ResultLine(of_result(entry.event, found), key, entry.event.name or tool)


def _pair(conversation: Conversation, entry: Entry, result: ToolResult) -> Pair | None:
    seen, found = [entry], None
    for earlier in islice(backwards(conversation, entry.position - 1), NEAR):
        seen.append(earlier)
        if _may_be_called(earlier, result):
            found = pair(reversed(seen)).pairs[entry.position]
            if found.call:
                return found
    return found


def _may_be_called(entry: Entry, result: ToolResult) -> bool:
    if not isinstance(entry.event, AssistantMessage):
        return False
    if result.call is not None:
        return result.call.entry == entry.id
    return any(call.id == result.call_id for call in entry.event.tool_calls)
