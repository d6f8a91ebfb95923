"""Entries by agents that had been sent something: they may say it in other words, which no search finds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from stenolog.domain.entry import Entry
from stenolog.domain.errors import StenologError
from stenolog.domain.events import AssistantMessage, LlmError, ToolResult, UserMessage
from stenolog.projections.analysis.explain import some_requests
from stenolog.projections.requests import LaneId, lanes
from stenolog.projections.requests.proofs import rebuilt
from stenolog.projections.views.tool_pairs import pair


def retold(
    log: Sequence[Entry], apart_from: Collection[LaneId], known: Collection[int], means: Mapping[str, Any]
) -> set[int]:
    """Return what lanes said after a request of theirs had one of the `known` entries, or such words.

    Results of their calls count as said by them. `means` are blobs and counters.
    """
    if not known:
        return set()
    others = [lane for lane in lanes(log) if lane not in apart_from]
    reads = {lane: [*_reads(log, lane, min(known), means)] for lane in others}
    speakers = {entry.position: lane for entry, lane in _speakers(log)}
    since: dict[LaneId, int] = {}
    found = set[int]()
    while True:
        before = dict(since)
        for lane, answers in reads.items():
            if at := next((answer for answer, read in answers if read & (found | {*known})), 0):
                since[lane] = at
        if since == before:
            return found - {*known}
        found |= {at for at, lane in speakers.items() if lane in since and at >= since[lane]}


def _reads(
    log: Sequence[Entry], lane: LaneId, first: int, means: Mapping[str, Any]
) -> Iterator[tuple[int, frozenset[int]]]:
    """Yield a lane's answers from a position on, each with the entries that its request was made from."""
    receipts, bare = set[int](), dict[int, int]()
    for entry in log:
        if isinstance(entry.event, AssistantMessage | LlmError) and lane.owns(entry.event):
            if entry.event.receipt is not None:
                receipts.add(entry.position)
            else:
                bare[entry.position - 1] = entry.position
    everything = frozenset(range(1, len(log) + 1))
    found = [
        (proof.position, everything if request is None else request.read)
        for proof, request in rebuilt(log, within=receipts, **means)
        if proof.view >= first
    ]
    try:
        asked = some_requests(
            log, lane, lambda window: window.position in bare, api=None, policy=None, **means
        )
        found += [(bare[request.at], request.read) for request in asked]
    except StenologError:
        found += [(at, everything) for at in bare.values()]
    yield from sorted((at, read) for at, read in found if at > first)


def _speakers(log: Sequence[Entry]) -> Iterator[tuple[Entry, LaneId]]:
    """Yield the entries that an agent said, or had a tool say."""
    calls, said = pair(log).calls, dict[int, LaneId]()
    for entry in log:
        match entry.event:
            case AssistantMessage(agent=agent, task=task) | LlmError(agent=agent, task=task):
                said[entry.position] = LaneId(agent, task)
            case UserMessage(author_kind="agent", author=author):
                said[entry.position] = LaneId(*author.split("/", 1))
            case ToolResult() if (call := calls.get(entry.position)) and call.position in said:
                said[entry.position] = said[call.position]
            case _:
                continue
        yield entry, said[entry.position]
