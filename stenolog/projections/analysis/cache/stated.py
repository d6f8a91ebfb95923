"""Misses of the prompt cache in a log without requests: by what providers state, and when.

An import has each answer's tokens, not what was sent. Causes are those that entries show: a pause, another
model, a summary, a shorter history. Otherwise the cause only lists what the log has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, UserMessage
from stenolog.domain.values import Usage
from stenolog.projections.formats.caching import HOUR, IDLE, MINUTES_5
from stenolog.projections.requests import LaneId

from .calls import LEAST, CacheCall, stated
from .causes import NO_CAUSE, Cause, Kind, hiding, is_summary
from .difference import TOLERANCE
from .prompts import rules_of

UNKNOWN: Kind = "cause not known from this log"


class StatedCall(NamedTuple):
    """An answer without a receipt, and the tokens that its provider states."""

    position: int
    model: str
    begun: datetime
    usage: Usage


def stated_calls(entries: Sequence[Entry]) -> list[CacheCall]:
    """Return what each call without a receipt read from the cache, in the answers' order.

    `entries` begin with the log's first. Lanes whose provider states no reading are skipped.
    """
    lanes: dict[LaneId, list[StatedCall]] = defaultdict(list)
    for entry in entries:
        if (made := _call(entry)) is not None:
            lanes[made[0]].append(made[1])
    found: list[CacheCall] = []
    for lane, calls in lanes.items():
        if any(call.usage.cache_read or call.usage.cache_write for call in calls):
            found += _compared(lane, calls, entries)
    return sorted(found)


def stated_call(before: Entry, after: Entry, between: Sequence[Entry]) -> CacheCall | None:
    """Return what an answer read from the cache, compared only with the previous one of its model.

    `between` are the entries from that one on, up to before the answer. None if one states no tokens.
    """
    first, second = _call(before), _call(after)
    if first is None or second is None:
        return None
    return _after(second[0], first[1], second[1], between, _keeps(first[1], None), [])


def _call(entry: Entry) -> tuple[LaneId, StatedCall] | None:
    match entry.event:
        case AssistantMessage(receipt=None, usage=Usage() as usage) as event if usage.input:
            begun = entry.time - timedelta(milliseconds=event.duration_ms or 0)
            call = StatedCall(entry.position, event.model, begun, usage)
            return LaneId(event.agent, event.task), call
        case _:
            return None


def _compared(lane: LaneId, calls: Sequence[StatedCall], entries: Sequence[Entry]) -> Iterator[CacheCall]:
    """Yield what each call read, beside the last one of the same model."""
    last: dict[str, StatedCall] = {}
    keeps: dict[str, int] = {}
    reads: list[int] = []
    previous: StatedCall | None = None
    for call in calls:
        before = last.get(call.model)
        if before is not None:
            # With the call before: it may be what wrote the summary.
            between = entries[before.position - 1 : call.position - 1]
            yield _after(lane, before, call, between, keeps[call.model], reads)
        elif previous is None:
            yield _read(lane, None, call)._replace(cause=Cause("cold start"))
        else:
            words = f"{previous.model} → {call.model}"
            yield _read(lane, None, call)._replace(cause=Cause("model", "changed", words=words))
        previous = last[call.model] = call
        keeps[call.model] = _keeps(call, keeps.get(call.model))


def _after(
    lane: LaneId,
    before: StatedCall,
    call: StatedCall,
    between: Sequence[Entry],
    keeps: int,
    reads: list[int],
) -> CacheCall:
    found = _read(lane, before, call)
    cause = _cause(lane, found, before, between, keeps)
    if cause.kind == UNKNOWN:
        cause = cause._replace(words=_observed(lane, found, between, reads.count(call.usage.cache_read)))
        reads.append(call.usage.cache_read)
    return found._replace(cause=cause)


def _keeps(call: StatedCall, before: int | None) -> int:
    """Return the seconds for which a beginning is kept, as last asked for."""
    if not rules_of(call.model).lookback:
        return IDLE
    if not call.usage.cache_write:
        return before or MINUTES_5
    return HOUR if call.usage.cache_write_hour * 2 >= call.usage.cache_write else MINUTES_5


class StatedMisses:
    """Tokens that answers read anew, by position: those of misses, as providers state them; for a list.

    It takes the log entry by entry, and counts calls with a receipt like the others.
    """

    def __init__(self, stored: Sequence[Any] = ((), (), ())) -> None:
        found, inputs, unsure = stored
        self.tokens: dict[int, int] = dict(found)
        self._inputs: dict[str, dict[str, int]] = dict(inputs)
        # Misses of a lane whose provider has stated no reading yet; None: it has.
        self._unsure: dict[str, list[tuple[int, int]] | None] = dict(unsure)

    def take(self, entry: Entry) -> None:
        """Take the next entry in."""
        event = entry.event
        if not isinstance(event, AssistantMessage) or event.usage is None or not event.usage.input:
            return
        lane, usage = LaneId(event.agent, event.task).address, event.usage
        inputs = self._inputs.setdefault(lane, {})
        unsure = self._unsure.setdefault(lane, [])
        missed = _could_read(inputs.get(event.model, 0), usage, event.model) - usage.cache_read
        inputs[event.model] = usage.input
        new = [(entry.position, missed)] if missed >= LEAST else []
        if unsure is not None and not (usage.cache_read or usage.cache_write):
            unsure += new
        else:
            self.tokens |= dict((*(unsure or ()), *new))
            self._unsure[lane] = None

    def dump(self) -> tuple[Any, ...]:
        """Return what a later one begins with, as JSON."""
        return [*self.tokens.items()], [*self._inputs.items()], [*self._unsure.items()]


def _could_read(before: int, usage: Usage, model: str) -> int:
    could = min(before, usage.input)
    return 0 if could < rules_of(model).minimum(model) else could


def _read(lane: LaneId, before: StatedCall | None, call: StatedCall) -> CacheCall:
    prompt, read = call.usage.input, call.usage.cache_read
    could = _could_read(before.usage.input if before else 0, call.usage, call.model)
    seconds = 0 if before is None else int((call.begun - before.begun).total_seconds())
    return CacheCall(
        call.position,
        call.position - 1,
        lane.address,
        "",
        call.model,
        0 if before is None else before.position,
        prompt,
        could,
        read,
        read,
        call.usage.cache_write,
        max(0, could - read),
        seconds,
        NO_CAUSE,
        *stated(call.usage),
    )


def _cause(lane: LaneId, found: CacheCall, before: StatedCall, between: Sequence[Entry], keeps: int) -> Cause:
    if found.missed < LEAST:
        return NO_CAUSE
    if found.seconds > keeps and found.missed * 2 > found.same:
        # Older files, and logs imported before, do not say that an hour was asked for.
        unless = " unless an hour is asked for" if keeps == MINUTES_5 else ""
        return Cause("expired", words=f"{found.seconds} s since the call before, kept for {keeps} s{unless}")
    summary = next((entry.position for entry in between if is_summary(entry, lane)), 0)
    if summary:
        return Cause("compaction", entry=summary)
    if position := hiding(between):
        return Cause("history", "rewound", entry=position)
    shorter = before.usage.input - found.prompt
    if shorter > TOLERANCE:
        return Cause("history", words=f"the request is {shorter:,} tokens shorter")
    return Cause(UNKNOWN)


def _observed(lane: LaneId, found: CacheCall, between: Sequence[Entry], before: int) -> str:
    again = f", as at {before} {'miss' if before == 1 else 'misses'} before" if before else ""
    read = f"{found.read:,} tokens were read" if found.read else "nothing was read"
    who = "a person" if any(_is_spoken_by_person(entry, lane) for entry in between) else "no person"
    pause = f"{found.seconds:,} s after the call before"
    return f"{pause}, {who} spoke between, {read}{again}; `stenolog tap` records what is sent"


def _is_spoken_by_person(entry: Entry, lane: LaneId) -> bool:
    match entry.event:
        case UserMessage(author_kind="person", in_context=True, to=to):
            return not to or lane.address in to
        case _:
            return False
