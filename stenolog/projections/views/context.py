"""Context at a position, the same for every lane, and the middle that a summary may replace."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from stenolog.domain import events
from stenolog.domain.entry import Entry
from stenolog.domain.lanes.lifecycle import BUSY
from stenolog.domain.lanes.state import State, Summary, address, fault, joined, summary_of
from stenolog.domain.lanes.step import INITIAL, evolve
from stenolog.domain.lanes.triggers import cover_fault
from stenolog.domain.settings import Settings, settings
from stenolog.domain.values import PositionRange

from .tool_pairs import ToolCallIndex, pair


class SummaryRecord(NamedTuple):
    """A summary as it was made, and the positions of the calls that were open then."""

    summary: Summary
    open_calls: tuple[int, ...]


class Context(NamedTuple):
    """The settings, which entry is left out by which rule, what replaces what, and the summaries.

    `out` maps a position to (rule, the position that is the reason). `replaced_by` maps the first of a row of
    edits, and each edit but the last, to the last; `edits` maps each edit to the first. `made` are all
    summaries, `summaries` those in force. `covered` are the positions that these hide from every lane that
    the entry concerns; it is empty in the context of an agent.
    """

    settings: Settings
    pairing: ToolCallIndex
    out: dict[int, tuple[str, int]]
    replaced_by: dict[int, int]
    edits: dict[int, int]
    summaries: tuple[Summary, ...]
    made: tuple[Summary, ...] = ()
    covered: frozenset[int] = frozenset()


def context(log: Sequence[Entry]) -> Context:
    """Read the context off the whole log."""
    return read_context(log, settings(log), pair(log), tuple(_summary_records(log)))


def read_context(
    entries: Sequence[Entry],
    now: Settings,
    pairing: ToolCallIndex,
    records: Sequence[SummaryRecord],
    agent: str = "",
) -> Context:
    """Return the context of some entries of a log, from the known state of the whole.

    It is that of an agent; without one, an entry is out if it is so for all agents that it concerns.
    """
    out: dict[int, tuple[str, int]] = {}
    is_hidden = within(now.hides)
    for entry in entries if now.context_from or now.contexts or now.hides else ():
        start = now.context_from_of(agent) if agent else _start(entry, now, pairing)
        if entry.position < start:
            out[entry.position] = ("reset", start)
        elif is_hidden(entry.position):
            out[entry.position] = ("hidden", entry.position)
    edits = _edits(entries, out)
    latest = {first: edit for edit, first in edits.items()}
    replaced = {position: latest[first] for position, first in edits.items() if position != latest[first]}
    replaced |= latest
    for old, new in replaced.items():
        out.setdefault(old, ("replaced", new))
    if not records:
        return Context(now, pairing, out, replaced, edits, ())
    held = _valid_summaries(records, out, pairing)
    covered = frozenset[int]() if agent else frozenset(_covered(entries, now, pairing, held))
    return Context(now, pairing, out, replaced, edits, held, tuple(one.summary for one in records), covered)


def _start(entry: Entry, now: Settings, pairing: ToolCallIndex) -> int:
    if not now.contexts:
        return now.context_from
    concerned = (where.partition("/")[0] for where in _concerned(entry, now, pairing))
    return min(map(now.context_from_of, concerned), default=now.context_from)


def _concerned(entry: Entry, now: Settings, pairing: ToolCallIndex) -> list[str]:
    match entry.event:
        case events.AssistantMessage(agent=agent, task=task) | events.LlmError(agent=agent, task=task):
            return [address(agent, task)]
        case events.ToolResult() if (pair := pairing.pairs.get(entry.position)) and pair.call:
            return [address(pair.call.agent, pair.call.task)]
        case events.UserMessage(to=to) | events.ToolResult(to=to) if to:
            return [*to]
        case _:
            return [*now.cards]


def _covered(
    entries: Sequence[Entry], now: Settings, pairing: ToolCallIndex, held: Sequence[Summary]
) -> Iterator[int]:
    for entry in entries:
        over = [summary for summary in held if summary.covers(entry.position)]
        lanes = _concerned(entry, now, pairing) if over else []
        if over and all(any(summary.is_for(where) for summary in over) for where in lanes):
            yield entry.position


def within(spans: Iterable[PositionRange]) -> Callable[[int], bool]:
    """Return a function that returns whether a position is in one of the spans."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted((span.first, span.last) for span in spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    firsts = [first for first, _ in merged]

    def is_within(position: int) -> bool:
        found = bisect_right(firsts, position)
        return found > 0 and position <= merged[found - 1][1]

    return is_within


def _edits(entries: Sequence[Entry], out: dict[int, tuple[str, int]]) -> dict[int, int]:
    edits: dict[int, int] = {}
    for entry in entries:
        match entry.event:
            case events.UserMessage(replaces=int(old)) | events.AssistantMessage(replaces=int(old)):
                if entry.position not in out and old < entry.position:
                    edits[entry.position] = edits.get(old, old)
            case _:
                pass
    return edits


def _summary_records(log: Sequence[Entry]) -> Iterator[SummaryRecord]:
    state = INITIAL
    for entry in log if any(getattr(entry.event, "covers", ()) for entry in log) else ():
        if summary := summary_of(entry.position, entry.event, state.summaries):
            yield SummaryRecord(summary, tuple(call.position for _, call in state.open_calls()))
        state = evolve(state, entry)


def _valid_summaries(
    summaries: Iterable[SummaryRecord], out: dict[int, tuple[str, int]], pairing: ToolCallIndex
) -> tuple[Summary, ...]:
    """Return the summaries in force: a larger one wins, and none covers an open call or half of another."""
    held: tuple[Summary, ...] = ()
    for summary, open_calls in summaries:
        if summary.position in out:
            continue
        if not fault(summary, held, [*open_calls, *pairing.halved(summary)]):
            held = joined(held, summary)
    return held


LEAST = 2
"""A summary takes the place of so many messages at least."""


def middle(entries: Iterable[Entry], lane: str, keep: int) -> tuple[PositionRange, ...]:
    """Return the spans that a summary for a lane may cover; none if too little is new.

    These stay: the last `keep` messages, the last message to the lane, and to another that has not answered
    it, the system's messages, and a call without a result with all after it. A question and its answer, a
    call and its result, and a summary are covered together or not at all, so the result of a call before a
    reset stays; an answer that goes on from a result may stay without it.
    """
    log, state, ends = [*entries], INITIAL, list[int]()
    pairing = pair(log)
    results = pairing.results
    halves = {p for call, result in results.items() for p in range(call.position, result)}
    returned = {*results.values()}
    for entry in log:
        asked = _asked_at(entry)  # right behind a result it may end, or no long run could be condensed
        halves.update(range(asked + (asked in returned), entry.position))
    for entry in log:
        state = evolve(state, entry)
        if not state.open_calls() and entry.position not in halves:
            ends.append(entry.position)
    messages = [entry for entry in log if not isinstance(entry.event, events.ModeSwitch | events.Unknown)]
    older = messages[: max(0, len(messages) - keep)]
    limit = older[-1].position if older else 0
    first, stays = _beginning(messages, lane, state, settings(log).context_from_of(lane.partition("/")[0]))
    stays |= {
        result
        for call, result in results.items()
        if call.position in stays or call.position < first <= result
    }
    for last in reversed([end for end in ends if first <= end <= limit]):
        spans = tuple(_around(stays, first, last))
        if _new(messages, spans, state, lane) < LEAST:
            break
        summary = Summary(state.position + 1, lane, spans)
        # Such a summary would be appended, and then not hold.
        if not cover_fault(state, summary) and not pairing.halved(summary):
            return spans
    return ()


def _beginning(messages: Sequence[Entry], lane: str, state: State, reset: int) -> tuple[int, set[int]]:
    taken = [span for summary in state.summaries if summary.is_for(lane) for span in summary.spans]
    at_work = (where for where, other in state.lanes.items() if other.status in (*BUSY, "failed"))
    own = {_last_question(messages, where) for where in (lane, *at_work)}
    own |= {entry.position for entry in messages if _is_systems(entry)}
    stays = {position for position in own if not any(position in span for span in taken)}
    spoken = [entry.position for entry in messages if entry.position >= reset and entry.position not in stays]
    return min([*spoken[:1], *(span.first for span in taken)], default=max(1, reset)), stays


def _last_question(messages: Sequence[Entry], lane: str) -> int:
    for entry in reversed(messages):
        match entry.event:
            case events.UserMessage(control=None, in_context=True, to=to) if not _is_systems(entry):
                if not to or lane in to:
                    return entry.position
            case events.AssistantMessage(purpose="answer", replaces=None, to=to) if lane in to:
                return entry.position
            case _:
                pass
    return 0


def _asked_at(entry: Entry) -> int:
    match entry.event:
        case events.AssistantMessage(replaces=None) | events.LlmError() as event:
            view = event.receipt.view if event.receipt else entry.position - 1
            return min(event.cause or view, view)
        case _:
            return entry.position


def _is_systems(entry: Entry) -> bool:
    return isinstance(entry.event, events.UserMessage) and entry.event.author_kind == "system"


def _around(stays: Iterable[int], first: int, last: int) -> Iterator[PositionRange]:
    for position in sorted(p for p in stays if first <= p <= last):
        if first < position:
            yield PositionRange(first=first, last=position - 1)
        first = position + 1
    if first <= last:
        yield PositionRange(first=first, last=last)


def _new(messages: Iterable[Entry], spans: Sequence[PositionRange], state: State, lane: str) -> int:
    summaries = {summary.position for summary in state.summaries}
    # What stands before its end and is not in it is left alone: its writer was not sent it, or it stays.
    last = max((summary.last for summary in state.summaries if summary.is_for(lane)), default=0)
    places = (e.position for e in messages if e.position > last and e.position not in summaries)
    return sum(any(place in span for span in spans) for place in places)
