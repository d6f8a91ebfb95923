"""Which middle of a conversation a summary may take the place of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, Unknown, UserMessage
from stenolog.domain.lifecycle import BUSY
from stenolog.domain.settings import settings
from stenolog.domain.state import State
from stenolog.domain.step import INITIAL, evolve
from stenolog.domain.summaries import Summary
from stenolog.domain.triggers import cover_fault
from stenolog.domain.values import PositionRange

from .tool_pairs import pair

LEAST = 2
"""A summary takes the place of so many messages at least."""


def middle(entries: Iterable[Entry], lane: str, keep: int) -> tuple[PositionRange, ...]:
    """The spans that a summary for a lane may cover; none where there is too little that is new.

    What stays as it is: the last `keep` messages, what somebody last said to the lane, or to another that has
    not answered it, what the system says, and a call whose result is not there yet, with all behind it.
    A question and its answer, a call and its result, and a summary are covered whole or not at all; an answer
    that goes on from a result may stay without it.
    """
    log, state, ends = [*entries], INITIAL, list[int]()
    results = pair(log).results
    halves = {p for call, result in results.items() for p in range(call.position, result)}
    returned = {*results.values()}
    for entry in log:
        asked = _asked_at(entry)  # right behind a result it may end, or no long run could be condensed
        halves.update(range(asked + (asked in returned), entry.position))
    for entry in log:
        state = evolve(state, entry)
        if not any(state.open_calls()) and entry.position not in halves:
            ends.append(entry.position)
    messages = [entry for entry in log if not isinstance(entry.event, ModeSwitch | Unknown)]
    older = messages[: max(0, len(messages) - keep)]
    limit = older[-1].position if older else 0
    first, stays = _beginning(messages, lane, state, settings(log).context_from_of(lane.partition("/")[0]))
    stays |= {result for call, result in results.items() if call.position in stays}
    for last in reversed([end for end in ends if first <= end <= limit]):
        spans = tuple(_around(stays, first, last))
        if _new(messages, spans, state) < LEAST:
            break
        if not cover_fault(state, Summary(state.position + 1, lane, spans)):
            return spans
    return ()


def _beginning(messages: Sequence[Entry], lane: str, state: State, reset: int) -> tuple[int, set[int]]:
    """Return the first position that a summary may cover, and the positions to keep that none covers yet."""
    taken = [span for summary in state.summaries for span in summary.spans]
    at_work = (where for where, other in state.lanes.items() if other.status in (*BUSY, "failed"))
    own = {_last_question(messages, where) for where in (lane, *at_work)}
    own |= {entry.position for entry in messages if _is_systems(entry)}
    stays = {position for position in own if not any(position in span for span in taken)}
    said = [entry.position for entry in messages if entry.position >= reset and entry.position not in stays]
    return min([*said[:1], *(span.first for span in taken)], default=1), stays


def _last_question(messages: Sequence[Entry], lane: str) -> int:
    """The position of what somebody last said to the lane; 0: nobody has."""
    for entry in reversed(messages):
        match entry.event:
            case UserMessage(control=None, in_context=True, to=to) if not _is_systems(entry):
                if not to or lane in to:
                    return entry.position
            case AssistantMessage(purpose="answer", replaces=None, to=to) if lane in to:
                return entry.position
            case _:
                pass
    return 0


def _asked_at(entry: Entry) -> int:
    """Return the earlier of an answer's cause and its view; for other entries their own position."""
    match entry.event:
        case AssistantMessage(replaces=None) | LlmError() as said:
            view = said.receipt.view if said.receipt else entry.position - 1
            return min(said.cause or view, view)
        case _:
            return entry.position


def _is_systems(entry: Entry) -> bool:
    """Return whether the entry is an instruction of the system, which no summary may blur."""
    return isinstance(entry.event, UserMessage) and entry.event.author_kind == "system"


def _around(stays: Iterable[int], first: int, last: int) -> Iterator[PositionRange]:
    """The positions from first to last without those that stay."""
    for position in sorted(p for p in stays if first <= p <= last):
        if first < position:
            yield PositionRange(first=first, last=position - 1)
        first = position + 1
    if first <= last:
        yield PositionRange(first=first, last=last)


def _new(messages: Iterable[Entry], spans: Sequence[PositionRange], state: State) -> int:
    """Count the messages in the spans that no summary has replaced and that are no summaries."""
    summaries = {summary.position for summary in state.summaries}
    taken = [span for summary in state.summaries for span in summary.spans]
    places = (entry.position for entry in messages if entry.position not in summaries)
    return sum(any(p in span for span in spans) and not any(p in span for span in taken) for p in places)
