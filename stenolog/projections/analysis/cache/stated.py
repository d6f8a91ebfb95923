"""Misses of the prompt cache in a log without requests: by what providers state, and when.

An import has each answer's tokens, not what was sent. Causes are those that entries show: a pause, another
model, a summary, a shorter history; or the call whose tokens were read. Otherwise the cause only lists what
the log has.
"""

from __future__ import annotations

from collections import defaultdict, deque
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
EARLIER = 200
"""Calls among which the one is looked for whose tokens were read."""


class StatedCall(NamedTuple):
    """An answer without a receipt, and the tokens that its provider states."""

    position: int
    model: str
    begun: datetime
    usage: Usage

    def below(self, read: int) -> int:
        """Return by how many tokens another reading is below what this call left; -1 if it is not that.

        Without a word on what was written, it is at most `TOLERANCE` below what was sent.
        """
        used = self.usage
        tokens = (used.cache_read + used.cache_write if used.cache_write else used.input) - read
        return tokens if read and 0 <= tokens <= (0 if used.cache_write else TOLERANCE) else -1


def stated_calls(entries: Sequence[Entry]) -> list[CacheCall]:
    """Return what each call without a receipt read from the cache, in the answers' order.

    `entries` follow one another. Lanes whose provider states no reading are skipped.
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
    earlier: dict[str, deque[StatedCall]] = defaultdict(lambda: deque(maxlen=EARLIER))
    first, previous = entries[0].position, None
    for call in calls:
        before = last.get(call.model)
        if before is not None:
            # With the call before: it may be what wrote the summary.
            between = entries[before.position - first : call.position - first]
            found, cause = _read(lane, before, call), NO_CAUSE
            if found.missed >= LEAST:
                cause = _cause(lane, found, (before, call), between, keeps[call.model], earlier[call.model])
            yield found._replace(cause=cause)
        elif previous is None:
            yield _read(lane, None, call)._replace(cause=Cause("cold start"))
        else:
            words = f"{previous.model} → {call.model}"
            yield _read(lane, None, call)._replace(cause=Cause("model", "changed", words=words))
        previous = last[call.model] = call
        earlier[call.model].append(call)
        keeps[call.model] = _keeps(call, keeps.get(call.model))


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


def _cause(
    lane: LaneId,
    found: CacheCall,
    calls: tuple[StatedCall, StatedCall],
    between: Sequence[Entry],
    keeps: int,
    earlier: Sequence[StatedCall],
) -> Cause:
    before, call = calls
    if found.seconds > keeps and found.missed * 2 > found.same:
        as_stated = ", as no hour is stated" if keeps == MINUTES_5 else ""
        words = f"{found.seconds:,} s since the call before, kept for {keeps:,} s{as_stated}"
        return Cause("expired", words=words)
    summary = next((entry.position for entry in between if is_summary(entry, lane)), 0)
    if summary:
        return Cause("compaction", entry=summary)
    if position := hiding(between):
        return Cause("history", "rewound", entry=position)
    who = "a person" if any(_is_spoken_by_person(entry, lane) for entry in between) else "no person"
    pause = f"{found.seconds:,} s after the call before"
    if call.begun <= before.begun:
        pause = "the times of the file do not say how long after the call before"
    source, read = _reading(call.usage.cache_read, earlier)
    shorter = before.usage.input - found.prompt
    if shorter > TOLERANCE:
        gone = f"the request is {shorter:,} tokens shorter, no entry says what went"
        return Cause("history", words=f"{gone}; {read}")
    words = f"{read}; {pause}, {who} spoke between"
    if source:
        return Cause("earlier call", words=words)
    return Cause(UNKNOWN, words=f"{words}; `stenolog tap` records what is sent")


def _reading(read: int, earlier: Sequence[StatedCall]) -> tuple[int, str]:
    """Return the call whose tokens were read, 0 if none has so many, and what the reading shows."""
    if not read:
        return 0, "nothing was read"
    words = f"{read:,} tokens were read"
    near = [(below, -call.position) for call in earlier if (below := call.below(read)) >= 0]
    if near:
        below, position = min(near)
        left = f"{below:,} fewer than the call at {-position} sent" if below else ""
        return -position, f"{words}, {left or f'all that the call at {-position} left in the cache'}"
    again = next((call.position for call in reversed(earlier) if call.usage.cache_read == read), 0)
    return (
        0,
        f"{words}, a fixed beginning as at {again}: what changed or was lost comes after it"
        if again
        else words,
    )


def _is_spoken_by_person(entry: Entry, lane: LaneId) -> bool:
    match entry.event:
        case UserMessage(author_kind="person", in_context=True, to=to):
            return not to or lane.address in to
        case _:
            return False
