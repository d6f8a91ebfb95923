"""Compactions of a lane: what a summary, rewind or reset took out of its requests, entry by entry.

What is only in the request before is covered by a summary, or gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.errors import InvalidEventError, PositionNotFoundError
from stenolog.domain.events import AssistantMessage, ModeSwitch
from stenolog.domain.lanes.state import without
from stenolog.domain.settings import NOTHING, configure
from stenolog.domain.values import PositionRange
from stenolog.projections.messages.explanation import omission_rule, tokens_of
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.sizes import COUNTERS
from stenolog.projections.messages.sizes import Counter as TokenCounter
from stenolog.projections.requests import LaneId, Request, RequestPart, asked_api, build
from stenolog.projections.requests.lane_rates import LaneRates
from stenolog.projections.requests.pipeline.tool_groups import PREVIEW_RULE
from stenolog.projections.terminal_text import one_line
from stenolog.projections.views.lines import describe
from stenolog.projections.views.tool_pairs import pair

CompactionKind: TypeAlias = Literal["summary", "hidden", "reset"]
EntryFate: TypeAlias = Literal["kept", "only in the summary", "gone", "new"]
LONGEST = 200
"""The most characters of an entry's words."""


class Compaction(NamedTuple):
    """An entry that took others out of a lane's requests: a summary, or a switch that hides or resets.

    `spans` are its positions. `text` is the summary's; `is_readable` is false if only its provider can read
    it.
    """

    position: int
    kind: CompactionKind
    spans: tuple[PositionRange, ...]
    text: str
    is_readable: bool


class CompactedRun(NamedTuple):
    """Neighbouring entries with one fate, their parts' tokens before and after, the first one's words.

    `rule` left them out, or "".
    """

    first: int
    last: int
    entries: int
    fate: EntryFate
    rule: str
    tokens_before: int
    tokens_after: int
    text: str


class RestoredEntry(NamedTuple):
    """The request with some entries put back: a call comes back with its result."""

    positions: tuple[int, ...]
    tokens: int
    bytes: int
    request: Request


class CompactedRequest(NamedTuple):
    """A lane's request before and after a compaction.

    The runs' tokens, with `beside_before` and `beside_after` (parts of no entry), are the requests'.
    """

    compaction: Compaction
    before: Request
    after: Request
    tokens_before: int
    tokens_after: int
    beside_before: int
    beside_after: int
    runs: tuple[CompactedRun, ...]
    restored: RestoredEntry | None = None


def compactions(entries: Iterable[Entry], lane: LaneId) -> Iterator[Compaction]:
    """Yield the compactions that concern a lane, in order."""
    now = NOTHING
    for entry in entries:
        before, now = now, configure(now, entry)
        match entry.event:
            case AssistantMessage(covers=spans) as summary if spans and _is_for(summary, lane):
                # What only the provider reads has parts, and no text.
                yield Compaction(entry.position, "summary", tuple(spans), summary.text, bool(summary.text))
            case ModeSwitch():
                begin = now.context_from_of(lane.agent)
                if begin > before.context_from_of(lane.agent):
                    spans = (PositionRange(first=1, last=begin - 1),) if begin > 1 else ()
                    yield Compaction(entry.position, "reset", spans, "", True)
                elif added := tuple(span for span in now.hides if span not in before.hides):
                    yield Compaction(entry.position, "hidden", added, "", True)
            case _:
                pass


def _is_for(summary: AssistantMessage, lane: LaneId) -> bool:
    is_named = not {lane.agent, lane.address}.isdisjoint(summary.to)
    return summary.agent == lane.agent or not summary.to or is_named


def compacted(
    entries: Iterable[Entry],
    lane: LaneId,
    position: int,
    *,
    restore: int | None = None,
    api: str | None = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, TokenCounter] = COUNTERS,
) -> CompactedRequest:
    """Return the lane's request before and after the compaction at a position.

    `restore` is an entry to put back. Raises `InvalidEventError` if there is no compaction, or it did not
    remove the entry; `PositionNotFoundError`.
    """
    log = [entry for entry in entries if entry.position <= position]
    found = next((one for one in compactions(log, lane) if one.position == position), None)
    if found is None:
        raise InvalidEventError(f"expected a compaction of {lane.address} at {position}, found none")
    chosen = asked_api(api, log, lane)
    given: dict[str, Any] = {"task": lane.task, "api": chosen, "blobs": blobs, "counters": counters}
    counted = LaneRates(lane).extend(log[:-1]).counted
    before = counted(build(log[:-1], lane.agent, **given))
    after = counted(build(log, lane.agent, **given))
    fates = list(_fates(before, after, found, log))
    restored = None
    if restore is not None:
        restored = _restored(log, lane, restore, fates, given, counted)
    tokens = tokens_of(before.parts), tokens_of(after.parts)
    beside = (
        tokens[0] - sum(each.tokens_before for each in fates),
        tokens[1] - sum(each.tokens_after for each in fates),
    )
    return CompactedRequest(found, before, after, *tokens, *beside, tuple(_folded(fates)), restored)


def _fates(
    before: Request, after: Request, found: Compaction, log: Sequence[Entry]
) -> Iterator[CompactedRun]:
    was, now = _tokens_by_position(before.parts), _tokens_by_position(after.parts)
    for entry in log:
        at = entry.position
        if at not in was and at not in now:
            continue
        rule = "" if at in now else omission_rule(after.omissions, at)
        fate: EntryFate = "kept" if at in was else "new"
        if at not in now:
            fate = "only in the summary" if rule == "covered" and found.kind == "summary" else "gone"
        text = one_line(describe(entry).what)[:LONGEST]
        yield CompactedRun(at, at, 1, fate, rule, was.get(at, 0), now.get(at, 0), text)


def _tokens_by_position(parts: Iterable[RequestPart]) -> dict[int, int]:
    """Return the tokens by entry; a part of several counts at the first."""
    tokens: dict[int, int] = defaultdict(int)
    for part in parts:
        if part.rule != PREVIEW_RULE and part.message >= 0:
            for index, position in enumerate(part.positions):
                tokens[position] += 0 if index else tokens_of([part])
    return tokens


def _folded(fates: Iterable[CompactedRun]) -> Iterator[CompactedRun]:
    for _, same in groupby(fates, key=lambda each: (each.fate, each.rule)):
        run = list(same)
        yield run[0]._replace(
            last=run[-1].last,
            entries=len(run),
            tokens_before=sum(each.tokens_before for each in run),
            tokens_after=sum(each.tokens_after for each in run),
        )


def _restored(
    log: Sequence[Entry],
    lane: LaneId,
    position: int,
    fates: Iterable[CompactedRun],
    given: Mapping[str, Any],
    counted: Callable[[Request], Request],
) -> RestoredEntry:
    gone = {each.first for each in fates if each.fate in ("only in the summary", "gone")}
    if not 1 <= position <= len(log):
        raise PositionNotFoundError(f"expected a position from 1 to {len(log)}, found {position}")
    if position not in gone:
        raise InvalidEventError(f"expected an entry that the compaction took out, found {position}")
    positions = tuple(sorted(_with_partners(log, position) & gone))
    request = counted(build(put_back(log, positions), lane.agent, **given))
    return RestoredEntry(positions, tokens_of(request.parts), len(request.bytes), request)


def _with_partners(log: Sequence[Entry], position: int) -> set[int]:
    results: dict[int, set[int]] = defaultdict(set)
    calls: dict[int, int] = {}
    for result, key in pair(log).calls.items():
        if key is not None:
            results[key.position].add(result)
            calls[result] = key.position
    call = calls.get(position, position)
    return {position, call, *results[call]}


def put_back(entries: Iterable[Entry], positions: Iterable[int]) -> list[Entry]:
    """Return the entries as if no summary, rewind or reset covered these positions."""
    log, restored = list(entries), {*positions}
    holes = [PositionRange(first=position, last=position) for position in restored]
    # A restored summary is shown for what it covers, which no other one may replace then.
    covered = [span for entry in log if entry.position in restored for span in _covers(entry)]
    shown = []
    for entry in log:
        event = entry.event
        if isinstance(event, AssistantMessage) and event.covers and entry.position not in restored:
            event = replace(event, covers=without(event.covers, [*holes, *covered]))
        elif isinstance(event, ModeSwitch):
            hides = event.hides if isinstance(event.hides, tuple) else ()
            begin = event.context_from if isinstance(event.context_from, int) else 0
            if begin and min(restored) < begin:
                # A reset is written as a rewind of all before it, so that one of them can stay.
                hides = (*hides, PositionRange(first=1, last=begin - 1))
                event = replace(event, context_from=None)
            if hides:
                event = replace(event, hides=without(hides, holes))
        shown.append(entry if event is entry.event else entry._replace(event=event))
    return shown


def _covers(entry: Entry) -> tuple[PositionRange, ...]:
    return tuple(entry.event.covers) if isinstance(entry.event, AssistantMessage) else ()
