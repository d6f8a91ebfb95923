"""A recorded run, run again without a model: at each recorded call, would today's engine make the same one?

What models and tools gave, and what people said, is taken from the log; the requests are built anew, under
the cards that are given.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch
from stenolog.domain.policy import policy
from stenolog.domain.state import address, decision
from stenolog.domain.step import INITIAL, evolve
from stenolog.domain.values import Card, Receipt
from stenolog.projections.difference import Difference, first_difference
from stenolog.projections.requests import WIRES, Lane, Request, Wire
from stenolog.projections.requests.build import from_window, windows
from stenolog.projections.requests.sections import by_hash
from stenolog.projections.requests.tokens import COUNTERS, Counter
from stenolog.projections.requests.wires.sheet import EMPTY_BLOBS


class Called(NamedTuple):
    """A recorded model call: where it was answered, by which lane, for what, and by which request."""

    position: int
    lane: Lane
    cause: int | None
    receipt: Receipt


class Divergence(NamedTuple):
    """The first call that is not the recorded one.

    `position` is that of its recorded answer, `view` where its request was built. `pointer` is a JSON pointer
    into the body; empty where the engine would not have made the call at all.
    """

    position: int
    lane: str
    view: int
    pointer: str
    expected: str
    found: str


class Rerun(NamedTuple):
    """What came of it: how many requests are those that were sent, and the first that is not."""

    entries: int
    requests: int
    divergence: Divergence | None


class Here(NamedTuple):
    """What this release builds with."""

    wires: Mapping[str, Wire] = WIRES
    blobs: Mapping[str, bytes] = EMPTY_BLOBS
    counters: Mapping[str, Counter] = COUNTERS


HERE = Here()


def rerun(entries: Iterable[Entry], cards: Mapping[str, Card] | None = None, here: Here = HERE) -> Rerun:
    """Run a log again, with other cards for the agents named, up to the first divergence.

    Calls without a receipt tell nothing of their request and are passed over. Raises as `build` does.
    """
    recorded, changed = list(entries), cards or {}
    now = list(_with(recorded, changed))
    called = list(_called(recorded))
    built = _built(now, called, changed, here)
    due = _due(now, called)
    for same, call in enumerate(called):
        if different := due.get(call.position) or _compared(recorded, call, built[call.position], here):
            return Rerun(len(recorded), same, different)
    return Rerun(len(recorded), len(called), None)


def _called(entries: Iterable[Entry]) -> Iterator[Called]:
    for entry in entries:
        match entry.event:
            case (
                AssistantMessage(agent=agent, task=task, cause=cause, receipt=Receipt() as receipt)
                | LlmError(agent=agent, task=task, cause=cause, receipt=Receipt() as receipt)
            ):
                yield Called(entry.position, Lane(agent, task), cause, receipt)
            case _:
                pass


def _with(entries: Iterable[Entry], cards: Mapping[str, Card]) -> Iterator[Entry]:
    """The log as it would be with these cards from the beginning."""
    for entry in entries:
        event = entry.event
        if isinstance(event, ModeSwitch):
            named = cards if entry.position == 1 else [name for name in event.cards if name in cards]
            changed = {name: cards[name] for name in named}
            entry = entry._replace(event=replace(event, cards={**event.cards, **changed}))
        yield entry


def _built(
    log: Sequence[Entry], called: Iterable[Called], cards: Mapping[str, Card], here: Here
) -> dict[int, Request]:
    """The request of each call, by the position of its answer: under its card, or as its receipt says."""
    groups: dict[tuple[Lane, str | None], list[Called]] = defaultdict(list)
    for call in called:
        given = None if call.lane.agent in cards else json.dumps(call.receipt.policy, sort_keys=True)
        groups[call.lane, given].append(call)
    built: dict[int, Request] = {}
    for (lane, given), calls in groups.items():
        chosen = None if given is None else policy(json.loads(given))
        views = _by_view(calls)
        for window in windows(log, lane, chosen, here.counters, here.blobs):
            for call in views.get(window.position, ()):
                wire = here.wires[call.receipt.wire.partition("@")[0]]
                built[call.position] = from_window(window, wire, here.blobs)
    return built


def _by_view(called: Iterable[Called]) -> dict[int, list[Called]]:
    views: dict[int, list[Called]] = defaultdict(list)
    for call in called:
        views[call.receipt.view].append(call)
    return views


def _due(log: Iterable[Entry], called: Sequence[Called]) -> dict[int, Divergence]:
    """The calls that the engine would not make where they were made, by the position of their answer."""
    views = _by_view(called)
    odd: dict[int, Divergence] = {}
    state = INITIAL
    for entry in log:
        state = evolve(state, entry)
        for call in views.get(entry.position, ()):
            where = address(*call.lane)
            next_is = decision(state, state.lane(where))
            if next_is.do != "call_model" or call.cause not in (None, next_is.cause):
                expected = f"a model call for position {call.cause}"
                found = f"{next_is.do} for position {next_is.cause}"
                odd[call.position] = Divergence(call.position, where, entry.position, "", expected, found)
    return odd


def _compared(recorded: Sequence[Entry], call: Called, request: Request, here: Here) -> Divergence | None:
    """Where a request first differs from the one that was sent; None where it is the same."""
    if request.sha256 == call.receipt.sha256:
        return None
    then = _built(recorded, [call], {}, here)[call.position]
    different = first_difference(by_hash(then.body), by_hash(request.body))
    if different is None:  # it cannot be built again at all: `verify --requests` says why
        different = Difference("/", call.receipt.sha256, request.sha256)
    return Divergence(call.position, address(*call.lane), call.receipt.view, *different)
