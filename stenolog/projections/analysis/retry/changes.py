"""Recorded calls, built again: as they were, and under a change of policy, cards, model or entries."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from stenolog.domain.base.registry import HINT
from stenolog.domain.card import AgentCard, with_patches
from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError, NotRegisteredError, StenologError
from stenolog.domain.events import ModeSwitch
from stenolog.domain.lanes.state import runs_in_words
from stenolog.domain.policy import Policy, PolicyLike, policy
from stenolog.domain.policy_text import in_short
from stenolog.domain.settings import settings
from stenolog.domain.values import PositionRange
from stenolog.projections.formats import FORMATS
from stenolog.projections.formats.base import Format
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.sizes import COUNTERS, Counter
from stenolog.projections.requests import LaneId, Request, build
from stenolog.projections.requests.as_sent import SentForms
from stenolog.projections.requests.incremental.series import at_views
from stenolog.projections.requests.request import PATCH, known_policy

from ..whatif import NO_EDITS, check_hidden, switch_for, unwritten, with_edits
from .cases import Case
from .sent_form import in_sent_form


class Here(NamedTuple):
    """The APIs, blobs and token counters that this release builds requests with."""

    apis: Mapping[str, Format] = FORMATS
    blobs: Mapping[str, bytes] = EMPTY_BLOBS
    counters: Mapping[str, Counter] = COUNTERS


HERE: Final = Here()
NO_FIELDS: Final[Mapping[str, Any]] = {}
NO_CARDS: Final[Mapping[str, AgentCard]] = {}


class Change(NamedTuple):
    """A change under which recorded calls are built again; the empty one changes nothing.

    `policy` is for all requests. `card` has fields of `AgentCard`, for the agent named, or for every one.
    `cards` are whole cards by agent. `model` is another model's name; `provider` is who serves it, and `api`
    its API, if they differ. `without` hides entries at the end, `unwritten` has them say and set nothing from
    the beginning, and `edits` are other texts of entries, by position.
    """

    policy: PolicyLike = None
    card: Mapping[str, Any] = NO_FIELDS
    agent: str = ""
    cards: Mapping[str, AgentCard] = NO_CARDS
    model: str = ""
    provider: str = ""
    api: str = ""
    without: Sequence[PositionRange] = ()
    edits: Mapping[int, str] = NO_EDITS
    unwritten: PositionRange | None = None

    def fields(self, agent: str) -> Mapping[str, Any]:
        """Return the fields that an agent's card is given."""
        named = self.card if self.agent in ("", agent) else NO_FIELDS
        model = {name: value for name in ("model", "provider") if (value := getattr(self, name))}
        # The limit of one model says nothing of another.
        return {"context_limit": 0, **model, **named} if model or "model" in named else named

    def changed(self, card: AgentCard, agent: str) -> AgentCard:
        """Return an agent's card under the change."""
        whole = self.cards.get(agent)
        card = card if whole is None else with_patches(whole, card)
        fields = self.fields(agent)
        return replace(card, **fields) if fields else card

    def decides_policy(self, agent: str) -> bool:
        """Return whether the change says which policy an agent has."""
        return self.policy is not None or agent in self.cards or "policy" in self.fields(agent)

    @property
    def is_none(self) -> bool:
        """True if it changes nothing."""
        return self == NO_CHANGE

    @property
    def in_words(self) -> str:
        """The change in words; "" if there is none."""
        whose = f" of {self.agent}" if self.agent else ""
        hidden = (*self.without, *filter(None, [self.unwritten]))
        said = {
            "policy": "" if self.policy is None else in_short(policy(self.policy)),
            "card": f"{', '.join(self.card)}{whose}" if self.card else "",
            "team": ", ".join(self.cards),
            "model": self.model,
            "without": runs_in_words((span.first, span.last) for span in hidden),
            "edited": ", ".join(map(str, self.edits)),
        }
        return "; ".join(f"{name} {words}" for name, words in said.items() if words)


NO_CHANGE: Final = Change()


class Retried(NamedTuple):
    """A call's request as it was sent, as far as it can be built, and under the change; None: `why` not.

    `plain` is the first as stenolog writes it, though another program sent it in a form of its own.
    """

    case: Case
    then: Request | None
    now: Request | None
    why: str = ""
    plain: Request | None = None


def built(case: Case, entries: Iterable[Entry], change: Change = NO_CHANGE, means: Here = HERE) -> Request:
    """Return the request of a recorded call under a change; `entries` are those of its conversation.

    Without a change it is the one that was sent. Raises `CallerError` if it cannot be built.
    """
    (found,) = retried([case], entries, change, means)
    if found.now is None:
        raise CallerError(f"the call answered at position {case.position}: {found.why}")
    return found.now


def retried(
    cases: Iterable[Case], entries: Iterable[Entry], change: Change = NO_CHANGE, means: Here = HERE
) -> Iterator[Retried]:
    """Yield calls of one conversation, built again; lane by lane, each under its recorded policy.

    Raises `NotRegisteredError` for an unknown API or policy.
    """
    log = list(entries)
    other = log if change.is_none else list(under(log, change))
    for group in _groups(cases):
        yield from _group_retried(group, log, other, change, means)


def _groups(cases: Iterable[Case]) -> Iterator[list[Case]]:
    """Yield the calls that are built in one pass over the log, each group in the order of its requests."""
    groups: dict[tuple[LaneId, str, str], list[Case]] = defaultdict(list)
    for case in cases:
        receipt = case.receipt
        asked = (json.dumps(receipt.policy, sort_keys=True), receipt.pipeline) if receipt else ("", "")
        groups[case.lane, *asked].append(case)
    for group in groups.values():
        yield sorted(group, key=lambda case: (case.view, case.position))


def _group_retried(
    group: Sequence[Case], log: Sequence[Entry], other: Sequence[Entry], change: Change, means: Here
) -> Iterator[Retried]:
    lane, forms = group[0].lane, SentForms(log, group[0].lane, means.blobs)
    then = _recorded_policy(group[0])
    now = policy(change.policy) if change.policy is not None else then
    if change.policy is None and change.decides_policy(lane.agent):
        now = None
    # Made with each entry, since to explain hundreds of requests at the end takes the square of the time.
    explained = not change.is_none and len(group) > 1
    before = _Pass(group, log, lane, then, means, explained=explained)
    after = before if change.is_none else _Pass(group, other, lane, now, means, explained=explained)
    for case in group:
        own = before.request(case, _api(case.api, case, means))
        sent = own and (forms.form(own, case.receipt) if case.receipt else own)
        if change.is_none:
            yield Retried(case, sent, sent, "" if sent else before.why, own)
            continue
        api = _api(change.api or case.api, case, means)
        made = _at_end(case, other, now, change, api, means) if change.without else after.request(case, api)
        if made is not None and own is not None and sent is not None:
            made = in_sent_form(made, own, sent)
        yield Retried(case, sent, made, "" if made else after.why, own)


class _Pass:
    """One pass over a log, by which calls are built in the order of their requests; `why` it ended."""

    def __init__(
        self,
        group: Sequence[Case],
        log: Sequence[Entry],
        lane: LaneId,
        chosen: Policy | None,
        means: Here,
        *,
        explained: bool,
    ) -> None:
        waiting: dict[int, list[Case]] = defaultdict(list)
        for case in group:
            waiting[case.view].append(case)
        self._made = at_views(waiting, log, lane, chosen, means.counters, means.blobs, explained=explained)
        self._next: tuple[Case, Any] | None = None
        self.why = "the agent took no part yet"

    def request(self, case: Case, api: Format) -> Request | None:
        """Return a call's request; None if it cannot be built."""
        try:
            self._next = self._next or next(self._made, None)
            if self._next is None or self._next[0] is not case:
                return None
            series, self._next = self._next[1], None
            made: Request = series.request(api)
        except StenologError as error:
            self.why = str(error)
            return None
        return made


def _at_end(
    case: Case, log: Sequence[Entry], chosen: Policy | None, change: Change, api: Format, means: Here
) -> Request:
    """Return a call's request with entries hidden at its end."""
    lane, view = case.lane, log[: bisect_right(log, case.view, key=lambda entry: entry.position)]
    for span in change.without:
        check_hidden(entry for entry in view if span.first <= entry.position <= span.last)
    hidden = switch_for(view[-1], settings(view), lane.agent, change.without, None)
    given: Any = {"policy": chosen, "blobs": means.blobs, "counters": means.counters}
    made = build([*view, *filter(None, [hidden])], lane.agent, task=lane.task, api=api, **given)
    return replace(made, at=case.view)


def _recorded_policy(case: Case) -> Policy | None:
    return None if case.receipt is None else known_policy(case.receipt)


def _api(name: str, case: Case, means: Here) -> Format:
    """Return an API. Raises `NotRegisteredError` if it is not among those given."""
    if name not in means.apis:
        raise NotRegisteredError(
            f"the call answered at position {case.position} went over the API {name!r}, which is not known "
            f"here ({', '.join(sorted(means.apis))}): {HINT}; from Python, pass it: "
            f"Here(apis={{**FORMATS, {name!r}: api}})"
        )
    return means.apis[name]


def under(log: Sequence[Entry], change: Change) -> Iterator[Entry]:
    """Yield the log as if it had been under the change from the beginning."""
    entries = with_edits(log, change.edits, log[-1].position if log else 0)
    if change.unwritten is not None:
        entries = unwritten(entries, change.unwritten)
    if not (change.card or change.cards or change.model or change.provider):
        yield from entries
        return
    agents = {name for entry in log if (name := getattr(entry.event, "agent", ""))} | {*change.cards}
    dealt = {name for entry in log if isinstance(entry.event, ModeSwitch) for name in entry.event.cards}
    made = ((name, change.changed(AgentCard(), name)) for name in sorted(agents - dealt))
    first: dict[str, AgentCard | None] = {name: card for name, card in made if card != AgentCard()}
    if first:  # before all entries, since their positions must stay
        yield log[0]._replace(position=0, id="change", event=ModeSwitch(cards=first))
    for entry in entries:
        event = entry.event
        if isinstance(event, ModeSwitch) and event.cards:
            changed = {
                name: None if card is None else change.changed(card, name)
                for name, card in event.cards.items()
            }
            entry = entry._replace(event=replace(event, cards=changed))
        yield entry


def is_foreign(case: Case) -> bool:
    """Return whether another program sent the call, in a form of its own."""
    return case.receipt is not None and PATCH in case.receipt.plan
