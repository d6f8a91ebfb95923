"""Explanations: the requests that an entry was in, and the reason for each part of a request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.errors import PositionNotFoundError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.lanes.step import Transition
from stenolog.domain.policy import PolicyLike
from stenolog.projections.fold import transitions
from stenolog.projections.messages.explanation import Disposition, Omission, RequestPart
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.rules import HAD, RULES
from stenolog.projections.messages.sizes import COUNTERS
from stenolog.projections.messages.sizes import Counter as TokenCounter
from stenolog.projections.requests import (
    LaneId,
    Request,
    lanes,
)
from stenolog.projections.requests.as_sent import SentForms
from stenolog.projections.requests.incremental.series import series
from stenolog.projections.requests.incremental.window import Window
from stenolog.projections.requests.lane_rates import LaneRates
from stenolog.projections.requests.part_texts import part_text
from stenolog.projections.requests.pipeline.lane_apis import lane_apis
from stenolog.projections.requests.pipeline.tool_groups import PREVIEW_RULE
from stenolog.projections.requests.sendable import may_be_asked
from stenolog.projections.views.lines import describe

from .blame import Reference, references

Fate: TypeAlias = Literal["kept", "reworded", "added", "held", "dropped", "a setting"]
FATES: tuple[Fate, ...] = ("kept", "reworded", "added")


class Form(NamedTuple):
    """Fate of an entry in one request: kept, held by the provider or left out; by which rules, at what cost.

    `message` is the index among the body's messages of what it first became, -1 for none. `without` are the
    rules that left out parts of it all the same.
    """

    fate: Fate
    rules: tuple[str, ...]
    role: str = ""
    message: int = -1
    tokens_in: int = 0
    tokens_out: int = 0
    without: tuple[str, ...] = ()


class Stretch(NamedTuple):
    """The lane's requests from position `first` to `last`, in which an entry has one form.

    `sendable` of them could have been sent. `answered` are the answers and errors after one of them; `sent`
    are those whose receipts name theirs.
    """

    first: int
    last: int
    form: Form
    sendable: int
    sent: tuple[int, ...]
    answered: tuple[int, ...] = ()


class InLane(NamedTuple):
    """History of an entry in the requests of a lane, stretch by stretch."""

    lane: str
    stretches: tuple[Stretch, ...]


class Explanation(NamedTuple):
    """History of an entry: its requests, its moves, and references from and to it."""

    entry: Entry
    lanes: tuple[InLane, ...]
    transitions: tuple[Transition, ...]
    refers_to: tuple[Reference, ...]
    referred_to_by: tuple[Reference, ...]


def explain(
    entries: Iterable[Entry],
    position: int,
    *,
    api: str | None = None,
    policy: PolicyLike = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, TokenCounter] = COUNTERS,
    lane: LaneId | None = None,
) -> Explanation:
    """Return the history of the entry at a position, up to the end of the entries.

    `lane`: only in this one's requests. `policy` None is each agent's own, `api` None that of each agent's
    answers. Raises `PositionNotFoundError`, and whatever `build` raises.
    """
    log = list(entries)
    entry = next((entry for entry in log if entry.position == position), None)
    if entry is None:
        raise PositionNotFoundError(f"expected a position from 1 to {len(log)}, found {position}")
    means: dict[str, Any] = {"policy": policy, "blobs": blobs, "counters": counters}
    apis = lane_apis(log)

    def went_into(lane: LaneId) -> InLane:
        own = {**means, "api": api or apis.of(lane)}
        return InLane(lane.address, tuple(_stretches(log, lane, entry, own)))

    named = [ref for ref in references(log) if ref.first <= position <= ref.last or ref.position == position]
    return Explanation(
        entry,
        tuple(map(went_into, lanes(log) if lane is None else (lane,))),
        tuple(transition for transition in transitions(log) if transition.position == position),
        tuple(ref for ref in named if ref.position == position),
        tuple(ref for ref in named if ref.position != position),
    )


def form(request: Request, entry: Entry) -> Form:
    """Return an entry's form in a request."""
    position = entry.position
    parts = [part for part in request.parts if position in part.positions and part.rule != PREVIEW_RULE]
    gone = [run for run in request.omissions if run.first <= position <= run.last]
    if not parts:
        rules = tuple(dict.fromkeys(run.rule for run in gone))
        tokens = sum(run.tokens for run in gone if run.first == run.last)
        fate: Fate = "a setting" if not gone else "dropped" if HAD.isdisjoint(rules) else "held"
        return Form(fate, rules, tokens_in=tokens)
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

    Only requests that may have been sent count, and the last one.
    """
    answers = _answers(log, lane)
    views = {one.view for one in answers if one.by_receipt} | {log[-1].position}

    def wanted(window: Window) -> bool:
        at = window.position
        return at >= entry.position and (at in views or may_send(window))

    forms, rates = SentForms(log, lane, means["blobs"]), LaneRates(lane).extend(log)
    found = (
        (request.at, request.ready, form(request, entry))
        for request in map(rates.counted, map(forms.form, some_requests(log, lane, wanted, **means)))
    )
    for _, run in groupby(found, key=lambda one: _kind(one[2])):
        alike = list(run)
        (first, *_), (last, _, now) = alike[0], alike[-1]
        asked = {at for at, _, _ in alike}
        # An error without a receipt may tell of something else, such as an interrupted tool.
        answered = [
            one for one in answers if one.view in asked or (one.by_receipt and first <= one.view <= last)
        ]
        sent = tuple(one.position for one in answered if one.by_receipt)
        sendable = sum(sendable for _, sendable, _ in alike)
        yield Stretch(first, last, now, sendable, sent, tuple(one.position for one in answered))


def _kind(form: Form) -> tuple[object, ...]:
    return form.fate, form.rules, form.role, form.without


class _Answer(NamedTuple):
    """An answer or error, and the position of its request: by its receipt, else just before it."""

    view: int
    position: int
    by_receipt: bool


def _answers(log: Sequence[Entry], lane: LaneId) -> list[_Answer]:
    return [
        _Answer(entry.position - 1, entry.position, by_receipt=False)
        if entry.event.receipt is None
        else _Answer(entry.event.receipt.view, entry.position, by_receipt=True)
        for entry in log
        if isinstance(entry.event, AssistantMessage | LlmError) and lane.owns(entry.event)
    ]


def some_requests(
    log: Sequence[Entry],
    lane: LaneId,
    wanted: Callable[[Window], bool],
    *,
    api: str,
    policy: PolicyLike,
    blobs: Mapping[str, bytes],
    counters: Mapping[str, TokenCounter],
) -> Iterator[Request]:
    """Yield the lane's request at each position with a wanted window. Raises as `build`."""
    for request in series(log, lane, policy, counters, blobs):
        if may_be_asked(request.window) and wanted(request.window):
            yield request.request(api)


def may_send(window: Window) -> bool:
    """Return whether the lane has something to answer."""
    address, state = window.lane.address, window.state
    lane = state.lane(address)
    return lane.status in ("awaiting_llm", "failed") or (address not in state.lanes and lane.asked > 0)


class Reason(NamedTuple):
    """The reason for a part of a request.

    `message` is its index among the body's messages, -1 outside. `does` describes the rule. `text` is what
    the part says there; if it shares its message with others, what the entry said.
    """

    message: int
    role: str
    positions: tuple[int, ...]
    disposition: Disposition
    rule: str
    does: str
    tokens_in: int
    tokens_out: int
    text: str


class Missing(NamedTuple):
    """A run of positions that was left out, the rule, what it does, and the tokens it would have cost.

    `text` is what the first of them said.
    """

    first: int
    last: int
    rule: str
    does: str
    tokens: int
    text: str


def why(request: Request, entries: Iterable[Entry], parts: Sequence[int] | None = None) -> tuple[Reason, ...]:
    """Return the reason for each part, in the order of the body; with `parts`, for those at these indexes.

    `entries` are the request's; only those at `described` positions are needed.
    """
    log = {entry.position: entry for entry in entries}
    shared = Counter(part.message for part in request.parts)
    chosen = request.parts if parts is None else [request.parts[at] for at in parts]
    return tuple(
        Reason(
            part.message,
            part.role,
            part.positions,
            part.disposition,
            part.rule,
            RULES.get(part.rule, ""),
            part.tokens_in,
            part.tokens_out,
            part_text(request, part, shared[part.message] == 1) or _describe(log, part.positions),
        )
        for part in chosen
    )


def left_out(
    request: Request, entries: Iterable[Entry], runs: Iterable[Omission] | None = None
) -> tuple[Missing, ...]:
    """Return the reason for each omitted run, or some of them; `entries` as for `why`."""
    log = {entry.position: entry for entry in entries}
    return tuple(
        Missing(
            run.first, run.last, run.rule, RULES.get(run.rule, ""), run.tokens, _describe(log, (run.first,))
        )
        for run in (request.omissions if runs is None else runs)
    )


def described(parts: Iterable[RequestPart], runs: Iterable[Omission]) -> list[int]:
    """Return the positions that the reasons for parts and omissions need."""
    return sorted({*(part.positions[0] for part in parts if part.positions), *(run.first for run in runs)})


def _describe(log: dict[int, Entry], positions: tuple[int, ...]) -> str:
    return describe(log[positions[0]]).what if positions and positions[0] in log else ""
