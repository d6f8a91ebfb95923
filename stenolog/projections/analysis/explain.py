"""History of an entry: the requests that it stood in, its form there, and the entries that refer to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.errors import PositionNotFoundError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.policy import PolicyLike
from stenolog.domain.step import Transition
from stenolog.projections.requests import DEFAULT_API, LaneId, Request, lanes
from stenolog.projections.requests.incremental.window import Window
from stenolog.projections.requests.request import EMPTY_BLOBS
from stenolog.projections.requests.tokens import COUNTERS, Counter
from stenolog.projections.timeline import ItemKind, ItemStatus, timeline
from stenolog.projections.transitions import transitions

from .references import Reference, references
from .scan import may_send, some_requests

Fate: TypeAlias = Literal["kept", "reworded", "added", "dropped", "a setting"]
FATES: tuple[Fate, ...] = ("kept", "reworded", "added")
PREVIEW = "preview-note"
"""The rule of a note that stands at an entry and says nothing of it."""


class Form(NamedTuple):
    """Fate of an entry in one request: kept or left out, by which rules, as what, at what cost.

    `message` is the index among the body's messages of what it first became, -1 for none. `without` are
    the rules by which parts of it were left out all the same.
    """

    fate: Fate
    rules: tuple[str, ...]
    role: str = ""
    message: int = -1
    tokens_in: int = 0
    tokens_out: int = 0
    without: tuple[str, ...] = ()


class Stretch(NamedTuple):
    """The requests that the lane had from position `first` to `last`, in which an entry has one form.

    `sendable` of them anyone would have sent; `sent` are the answers and errors whose receipts say that
    theirs was one of them.
    """

    first: int
    last: int
    form: Form
    sendable: int
    sent: tuple[int, ...]


class InLane(NamedTuple):
    """History of an entry in the requests of a lane, stretch by stretch."""

    lane: str
    stretches: tuple[Stretch, ...]


class ShownEntry(NamedTuple):
    """An item of the timeline that an entry began, or (`result`) whose result it is; items count from 1."""

    item: int
    kind: ItemKind
    status: ItemStatus
    result: bool
    hidden: bool


class Explanation(NamedTuple):
    """History of an entry: its requests, its moves, and references from and to it."""

    entry: Entry
    lanes: tuple[InLane, ...]
    timeline: tuple[ShownEntry, ...]
    transitions: tuple[Transition, ...]
    refers_to: tuple[Reference, ...]
    referred_to_by: tuple[Reference, ...]


def explain(
    entries: Iterable[Entry],
    position: int,
    *,
    api: str = DEFAULT_API,
    policy: PolicyLike = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Explanation:
    """Return the history of the entry at a position, up to the end of the entries.

    `policy` None is each agent's own. Raises `PositionNotFoundError`, and whatever building a request raises.
    """
    log = list(entries)
    entry = next((entry for entry in log if entry.position == position), None)
    if entry is None:
        raise PositionNotFoundError(f"expected a position from 1 to {len(log)}, found {position}")
    means: dict[str, Any] = {"api": api, "policy": policy, "blobs": blobs, "counters": counters}
    went = (InLane(lane.address, tuple(_stretches(log, lane, entry, means))) for lane in lanes(log))
    named = [ref for ref in references(log) if ref.first <= position <= ref.last or ref.position == position]
    return Explanation(
        entry,
        tuple(went),
        tuple(_displayed(log, position)),
        tuple(made for made in transitions(log) if made.position == position),
        tuple(ref for ref in named if ref.position == position),
        tuple(ref for ref in named if ref.position != position),
    )


def form(request: Request, entry: Entry) -> Form:
    """Return the form of an entry in a request."""
    position = entry.position
    parts = [part for part in request.parts if position in part.positions and part.rule != PREVIEW]
    gone = [run for run in request.dropped if run.first <= position <= run.last]
    if not parts:
        rules = tuple(dict.fromkeys(run.rule for run in gone))
        tokens = sum(run.tokens for run in gone if run.first == run.last)
        return Form("dropped", rules, tokens_in=tokens) if gone else Form("a setting", ())
    found = {part.disposition for part in parts}
    return Form(
        next(fate for fate in FATES if fate in found),
        tuple(dict.fromkeys(part.rule for part in parts)),
        parts[0].role,
        parts[0].message,
        sum(part.tokens_in for part in parts),
        sum(part.tokens_out for part in parts),
        tuple(dict.fromkeys(run.rule for run in gone if position in (run.first, run.last))),
    )


def _stretches(
    log: Sequence[Entry], lane: LaneId, entry: Entry, means: Mapping[str, Any]
) -> Iterator[Stretch]:
    """Yield the entry's forms in the requests of the lane; neighbours of one form are one stretch.

    Looked at are the requests that may have been sent, and the last one.
    """
    receipts = _receipts(log, lane)
    views = {view for view, _ in receipts} | {log[-1].position}

    def wanted(window: Window) -> bool:
        at = window.position
        return at >= entry.position and (at in views or may_send(window))

    found = (
        (request.at, request.ready, form(request, entry))
        for request in some_requests(log, lane, wanted, **means)
    )
    for _, run in groupby(found, key=lambda one: _kind(one[2])):
        alike = list(run)
        (first, *_), (last, _, now) = alike[0], alike[-1]
        sent = tuple(answer for view, answer in receipts if first <= view <= last)
        yield Stretch(first, last, now, sum(sendable for _, sendable, _ in alike), sent)


def _kind(form: Form) -> tuple[object, ...]:
    """Return the properties by which two forms count as one."""
    return form.fate, form.rules, form.role, form.without


def _receipts(log: Sequence[Entry], lane: LaneId) -> list[tuple[int, int]]:
    """For each answer or error of the lane with a receipt: the view it names, and its own position."""
    return [
        (entry.event.receipt.view, entry.position)
        for entry in log
        if isinstance(entry.event, AssistantMessage | LlmError)
        and entry.event.receipt is not None
        and lane.owns(entry.event)
    ]


def _displayed(log: Sequence[Entry], position: int) -> Iterator[ShownEntry]:
    for number, item in enumerate(timeline(log), 1):
        if item.kind != "running" and position in (item.position, item.result):
            yield ShownEntry(number, item.kind, item.status, item.result == position, item.hidden)
