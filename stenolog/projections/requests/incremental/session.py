"""Requests of one lane on one API, one after another: each is made of what changed since the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.errors import AgentNotFoundError, UnsupportedVersionError
from stenolog.domain.policy import Policy
from stenolog.domain.settings import Settings
from stenolog.domain.state import blocked_reason
from stenolog.projections.requests.body_digest import conversation
from stenolog.projections.requests.pipeline import prompt
from stenolog.projections.requests.pipeline.omissions import dropped, merge_runs
from stenolog.projections.requests.pipeline.prompt import Prefix, prefix, with_away
from stenolog.projections.requests.pipeline.tool_groups import preview_note
from stenolog.projections.requests.pipeline.view import WindowRow
from stenolog.projections.requests.request import (
    EMPTY_BLOBS,
    Body,
    Explanation,
    LazyExplanation,
    Message,
    Omission,
    Rendered,
    Request,
)
from stenolog.projections.requests.rules import CUTS
from stenolog.projections.requests.wires import APIS, Api
from stenolog.projections.requests.wires.writer import Writer

from .frozen import FrozenAndTail, FrozenPrefix, called_in
from .sendable import goes_on, may_be_asked, over_budget, since_last_turn, unknown, unnamed, unsendable_reason
from .window import Window

NOTHING: frozenset[int] = frozenset()
_Around: TypeAlias = tuple[tuple[Message, ...], Prefix, tuple[Message, ...]]
"""The note before the conversation, what stands before it, and the note behind it."""


class _View(NamedTuple):
    """All that a request is made of: what is told, what stands around it, and what had been delivered."""

    told: FrozenAndTail
    first: tuple[Message, ...]
    rest: tuple[Message, ...]
    front: Prefix
    delivered: frozenset[int]
    end: Message | None

    @property
    def pieces(self) -> list[Message]:
        """Everything that is written, in order."""
        units = islice(self.told.settled.units, self.told.number)
        return [*self.first, *chain.from_iterable(units), *self.rest]


@dataclass(slots=True)
class _Asked:
    """Explains a request once somebody asks: all of it is written again, and each part explained."""

    view: _View
    api: Api
    blobs: Mapping[str, bytes]
    runs: tuple[Omission, ...]
    rows: Sequence[WindowRow]
    number: int

    def __call__(self, rendered: Rendered | None = None) -> Explanation:
        view, told = self.view, self.view.told
        pieces = view.pieces
        made = rendered or self.api.render(pieces, view.front, self.blobs)
        rules = dict.fromkeys(view.delivered, "delivered")
        for nth, row in enumerate(islice(self.rows, self.number)):
            left_out = told.settled.left_out if nth < told.rows else told.left_out
            if row.entry.position in left_out:
                rules[row.entry.position] = left_out[row.entry.position]
        rows = self.rows[: self.number]
        gone = dropped(self.runs, rows, rules, pieces, made.omitted, view.front.counter)
        return Explanation(made.parts, tuple(gone))


class RequestSession:
    """The requests of a window on an API. Ask after each entry that the window takes, or after many.

    `settled`: so many messages at the beginning of the last body are the very objects that stood in the body
    before it; all bodies share them, and nobody may change them.
    """

    def __init__(self, window: Window, api: str | Api, blobs: Mapping[str, bytes] = EMPTY_BLOBS) -> None:
        self.window, self.api, self.blobs = window, _api(api), blobs
        self.settled = 0
        self._writer: Writer | None = None
        self._rests_on: tuple[FrozenPrefix, Prefix, tuple[Message, ...]] | None = None
        self._written = 0
        self._settings: Settings | None = None
        self._around_rests_on: object = None
        self._surroundings: _Around

    def request(self) -> Request:
        """The request of what is in the window now. Raises `UnsupportedVersionError`,
        `AgentNotFoundError`."""
        window = self.window
        if window.state.blocked is not None:
            raise UnsupportedVersionError(blocked_reason(window.state.blocked))
        if not may_be_asked(window):
            raise AgentNotFoundError(unknown(window))
        view = self._view()
        runs = tuple(window.left_out)
        explain = _Asked(view, self.api, self.blobs, runs, window.rows, len(window.rows))
        body, explained = self._written_down(view, explain)
        writer, messages = self._writer, conversation(body)
        request = Request(
            agent=window.lane.agent,
            task=window.lane.task,
            at=window.position,
            api=f"{self.api.name}@{self.api.version}",
            body=body,
            sendable=True,
            reason="",
            explain=LazyExplanation(explained),
            policy=window.policy,
            counter=window.counter.id,
            cuts=window.cuts,
            cut=_cut(runs) if window.cuts else (),
            encoded=writer.encoded(messages) if writer is not None and isinstance(messages, list) else None,
        )
        reasons = (unsendable_reason(window, view.end), over_budget(window, request))
        reason = "; ".join(reason for reason in reasons if reason)
        if reason:
            return replace(request, sendable=False, ready=False, reason=reason)
        no_model = unnamed(window, body, self.api.name)
        return replace(request, sendable=False, reason=no_model) if no_model else request

    @property
    def writer(self) -> Writer | None:
        """The writer of the frozen prefix."""
        return self._writer

    def _written_down(self, view: _View, explain: _Asked) -> tuple[Body, Callable[[], Explanation]]:
        """The body, and what explains it."""
        if self.api.writer is None:
            rendered = self.api.render(view.pieces, view.front, self.blobs)
            return rendered.body, lambda: explain(rendered)
        before = self._writer
        writer = self._at_work(view, self.api.writer)
        mark, told = writer.sheet.checkpoint, view.told
        if self._written < told.number:
            fresh = islice(told.settled.units, self._written, told.number)
            writer.write([*chain.from_iterable(fresh)])
            self._written = told.number
        body = writer.body(view.rest)
        self.settled = mark.unchanged(conversation(body)) if writer is before else 0
        if writer.sheet.missing:  # a blob that comes later must be seen
            self._writer = None
        return body, explain

    def _view(self) -> _View:
        window = self.window
        told, delivered, entries = (
            _render_all(window) if depends_on_tail(window.policy) else (window.frozen_and_tail(), NOTHING, [])
        )
        said = [piece for unit in told.units for piece in unit]
        end = said[-1] if said else told.settled.end
        tools = {**told.settled.tools, **called_in(said)}
        first, front, behind = self._around(tools, entries)
        rest = (*said, *preview_note(end), *behind)
        return _View(told, first, rest, front, delivered, end)

    def _around(self, tools: dict[str, None], entries: list[Entry]) -> _Around:
        """Return the text around the conversation; rebuild it if something that it depends on has changed."""
        window, own = self.window, self.window.memory
        turns = own.turns if window.policy.reminder is not None else 0
        rests_on = (own.set_at, own.handoff, own.model, turns, window.cuts, tools, goes_on(window))
        if entries or self._settings is not window.settings or self._around_rests_on != rests_on:
            note = prompt.cut_note(window)
            front = _front(window, tools)
            stands = window.policy.history.delta and any(each.rule == "persona" for each in front.sections)
            card = window.settings.card_of(window.lane.agent)
            behind = prompt.trailing_note(window, replace(card, persona="") if stands else card, entries)
            self._surroundings = ((note,) if note else (), front, (behind,) if behind else ())
            self._settings, self._around_rests_on = window.settings, rests_on
        return self._surroundings

    def _at_work(self, view: _View, writer: type[Writer]) -> Writer:
        """The writer that has written what is settled so far: a new one where that has changed."""
        rests_on = (view.told.settled, view.front, view.first)
        if self._writer is None or self._rests_on != rests_on:
            self._writer = writer(view.front, self.blobs, explaining=False)
            self._writer.write(view.first)
            self._rests_on, self._written = rests_on, 0
        return self._writer


def depends_on_tail(policy: Policy) -> bool:
    """Return whether the policy makes the frozen prefix depend on later entries."""
    return policy.away is not None or policy.history.delta or policy.reminder is not None


def _cut(runs: Iterable[Omission]) -> tuple[tuple[int, int], ...]:
    return tuple((run.first, run.last) for run in merge_runs(runs) if run.rule in CUTS)


def _render_all(window: Window) -> tuple[FrozenAndTail, frozenset[int], list[Entry]]:
    """Everything at once: what is told, what had been delivered, and the entries that are shown."""
    shown = window.contents()
    units, had = since_last_turn(window, shown)
    units = with_away(units, shown.entries, window.lane, window.policy.away, window.memory.began)
    return FrozenAndTail(FrozenPrefix(), 0, 0, units, shown.left_out), frozenset(had), shown.entries


def _front(window: Window, tools: Iterable[str]) -> Prefix:
    """Return the prefix of the conversation."""
    card = window.settings.card_of(window.lane.agent)
    sections = prompt.system_prompt(window, card)
    if goes_on(window):
        seen, card_set = window.state.lane(window.lane.address).seen, window.memory.set_at.get("card", 0)
        sections = tuple(each for each in sections if max((card_set, *each.positions)) > seen)
    return prefix(
        window.lane.address,
        card,
        sections,
        tools,
        model=window.memory.model,
        set_at=(window.memory.set_at["card"],) if "card" in window.memory.set_at else (),
        counter=window.counter,
    )


def _api(api: str | Api) -> Api:
    return api if isinstance(api, Api) else APIS[api]
