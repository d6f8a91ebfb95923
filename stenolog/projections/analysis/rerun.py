"""A recorded run, run again without a model: at each recorded call, would today's engine make the same one?

Answers, results and people's words come from the log; requests are built under the given cards.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from stenolog.domain.base.registry import HINT
from stenolog.domain.card import AgentCard, with_patches
from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError, NotRegisteredError
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch
from stenolog.domain.lanes.state import State, address, decision
from stenolog.domain.lanes.step import INITIAL, evolve
from stenolog.domain.lanes.turns import TURN_RULES, is_known
from stenolog.domain.values import Receipt, TurnPolicy
from stenolog.projections.formats import FORMATS
from stenolog.projections.formats.base import Format
from stenolog.projections.json_checks import JsonDifference, first_difference
from stenolog.projections.messages.body_digest import by_hash
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.sizes import COUNTERS, Counter
from stenolog.projections.requests import LaneId, Request
from stenolog.projections.requests.as_sent import SentForms
from stenolog.projections.requests.incremental.series import series
from stenolog.projections.requests.request import PATCH, sent_under


class Called(NamedTuple):
    """A recorded model call: the position of its answer, its lane, its cause, and its request."""

    position: int
    lane: LaneId
    cause: int | None
    receipt: Receipt


class Team(NamedTuple):
    """A whole team as it is now: the cards of its agents, and its rule of turns, if any."""

    cards: Mapping[str, AgentCard]
    turns: TurnPolicy | None = None


class Divergence(NamedTuple):
    """The first call that differs from the recorded one.

    `position` is that of its recorded answer, `view` that of its request. `pointer` is a JSON pointer into
    the body; "" if the engine would not have made the call at all, or has other settings there.
    """

    position: int
    lane: str
    view: int
    pointer: str
    expected: str
    found: str


class Rerun(NamedTuple):
    """The result of a rerun: the number of requests that equal the sent ones, and the first that differs."""

    entries: int
    requests: int
    divergence: Divergence | None


class Here(NamedTuple):
    """The APIs, blobs and token counters that this release builds requests with."""

    apis: Mapping[str, Format] = FORMATS
    blobs: Mapping[str, bytes] = EMPTY_BLOBS
    counters: Mapping[str, Counter] = COUNTERS


HERE = Here()
NOT_COMPARED: Final = ("limits", "retries", "timeouts", "on_unknown", "what tools do")
"""Parts of a team that leave no trace in a log, and are not compared."""


def rerun(
    entries: Iterable[Entry], now: Mapping[str, AgentCard] | Team | None = None, here: Here = HERE
) -> Rerun:
    """Run a log again, up to the first divergence: with other cards for the agents named, or under a team.

    A team must have every agent that was called and none that never took part, the same rule of turns, and
    ask a person about the same tools. Calls without a receipt are skipped. Raises as `build`, and
    `NotRegisteredError` for an unknown turn rule.
    """
    recorded = list(entries)
    _check_turn_rules(recorded)
    cards = now.cards if isinstance(now, Team) else now or {}
    changed = list(_with(recorded, cards))
    called = list(_called(recorded))
    built = _built(changed, called, cards, here)
    due = _due(changed, called)
    members = _members(recorded, called, now) if isinstance(now, Team) else {}
    asking = _asking(recorded, called, now) if isinstance(now, Team) else {}
    for same, call in enumerate(called):
        at = call.position
        request = built[at]
        different = (
            members.get(at) or due.get(at) or _compared(recorded, call, request, here) or asking.get(at)
        )
        if different:
            return Rerun(len(recorded), same, different)
    return Rerun(len(recorded), len(called), None)


def _check_turn_rules(entries: Iterable[Entry]) -> None:
    for entry in entries:
        if isinstance(entry.event, ModeSwitch) and not is_known(turns := entry.event.turns):
            rule = turns.rule if isinstance(turns, TurnPolicy) else turns
            raise NotRegisteredError(f"position {entry.position}: {TURN_RULES.missing(rule)}")


def _called(entries: Iterable[Entry]) -> Iterator[Called]:
    for entry in entries:
        match entry.event:
            case (
                AssistantMessage(agent=agent, task=task, cause=cause, receipt=Receipt() as receipt)
                | LlmError(agent=agent, task=task, cause=cause, receipt=Receipt() as receipt)
            ):
                yield Called(entry.position, LaneId(agent, task), cause, receipt)
            case _:
                pass


def _with(entries: Iterable[Entry], cards: Mapping[str, AgentCard]) -> Iterator[Entry]:
    """Yield the log as with these cards from the beginning."""
    for entry in entries:
        event = entry.event
        if isinstance(event, ModeSwitch):
            named = cards if entry.position == 1 else [name for name in event.cards if name in cards]
            # What was set while it worked has its cause in the log, under any card.
            changed = {name: with_patches(cards[name], event.cards.get(name)) for name in named}
            entry = entry._replace(event=replace(event, cards={**event.cards, **changed}))
        yield entry


def _built(
    log: Sequence[Entry], called: Iterable[Called], cards: Mapping[str, AgentCard], here: Here
) -> dict[int, Request]:
    """Return each call's request, by its answer's position: under its card, or as its receipt says."""
    groups: dict[tuple[LaneId, str, str], list[Called]] = defaultdict(list)
    for call in called:
        receipt = call.receipt
        asked = json.dumps(receipt.policy, sort_keys=True), receipt.pipeline
        groups[call.lane, *(("", "") if call.lane.agent in cards else asked)].append(call)
    built: dict[int, Request] = {}
    for (lane, *_), calls in groups.items():
        chosen = None if lane.agent in cards else sent_under(calls[0].receipt)
        views, forms = _by_view(calls), SentForms(log, lane, here.blobs)
        for request in series(log, lane, chosen, here.counters, here.blobs):
            for call in views.get(request.window.position, ()):
                built[call.position] = forms.form(request.request(_api(call, here)), call.receipt)
    return built


def _api(call: Called, here: Here) -> Format:
    """Return the API of a recorded call. Raises `CallerError` if it is not among those given."""
    name = call.receipt.api.partition("@")[0]
    if name not in here.apis:
        raise CallerError(
            f"the call answered at position {call.position} went over the API {name!r}, which is not known "
            f"here ({', '.join(sorted(here.apis))}): {HINT}; from Python, pass it: "
            f"rerun(entries, here=Here(apis={{**FORMATS, {name!r}: api}}))"
        )
    return here.apis[name]


def _by_view(called: Iterable[Called]) -> dict[int, list[Called]]:
    views: dict[int, list[Called]] = defaultdict(list)
    for call in called:
        views[call.receipt.view].append(call)
    return views


def _members(log: Sequence[Entry], called: Sequence[Called], team: Team) -> dict[int, Divergence]:
    """Return the calls before which the team or its turn rule differs. Lanes of tasks belong to workers."""
    switches = (entry.event for entry in log if isinstance(entry.event, ModeSwitch))
    joined = {name for switch in switches for name in switch.joins} | {call.lane.agent for call in called}
    strangers = ", ".join(name for name in team.cards if name not in joined)
    odd: dict[int, Divergence] = {}
    for call, state in _states(log, called):
        if not call.lane.task and call.lane.agent not in team.cards:
            odd[call.position] = _other(call, f"agent {call.lane.agent!r}", f"only {', '.join(team.cards)}")
        elif strangers:
            odd[call.position] = _other(call, f"only {', '.join(sorted(joined))}", f"{strangers} besides")
        elif state.turns != team.turns:
            odd[call.position] = _other(call, f"turns: {_rule(state.turns)}", f"turns: {_rule(team.turns)}")
    return odd


def _asking(log: Iterable[Entry], called: Sequence[Called], team: Team) -> dict[int, Divergence]:
    odd: dict[int, Divergence] = {}
    for call, state in _states(log, called):
        agent = call.lane.agent
        then = sorted(state.approvals.get(agent, ()))
        card = team.cards.get(agent)
        now = sorted(tool.name for tool in (card and card.tools) or () if tool.approval)
        if card is not None and then != now:
            odd[call.position] = _other(call, *(f"approval of: {', '.join(n) or '-'}" for n in (then, now)))
    return odd


def _states(log: Iterable[Entry], called: Iterable[Called]) -> Iterator[tuple[Called, State]]:
    views, state = _by_view(called), INITIAL
    for entry in log:
        state = evolve(state, entry)
        for call in views.get(entry.position, ()):
            yield call, state


def _rule(turns: TurnPolicy | None) -> str:
    if turns is None:
        return "no rule"
    return f"{turns.rule} {json.dumps(turns.options)}" if turns.options else turns.rule


def _other(call: Called, expected: str, found: str) -> Divergence:
    return Divergence(call.position, address(*call.lane), call.receipt.view, "", expected, found)


def _due(log: Iterable[Entry], called: Sequence[Called]) -> dict[int, Divergence]:
    """Return the calls that the engine would not make there, by their answer's position."""
    odd: dict[int, Divergence] = {}
    for call, state in _states(log, called):
        if PATCH in call.receipt.plan:
            continue  # another program made the call, by rules of its own
        next_is = decision(state, state.lane(address(*call.lane)))
        if next_is.do != "call_model" or call.cause not in (None, next_is.cause):
            expected = f"a model call for position {call.cause}"
            odd[call.position] = _other(call, expected, f"{next_is.do} for position {next_is.cause}")
    return odd


def _compared(recorded: Sequence[Entry], call: Called, request: Request, here: Here) -> Divergence | None:
    if request.sha256 == call.receipt.sha256:
        return None
    then = _built(recorded, [call], {}, here)[call.position]
    different = first_difference(by_hash(then.body), by_hash(request.body))
    if different is None:  # it cannot be built again at all: `check log --requests` says why
        different = JsonDifference("/", call.receipt.sha256, request.sha256)
    return Divergence(call.position, address(*call.lane), call.receipt.view, *different)
