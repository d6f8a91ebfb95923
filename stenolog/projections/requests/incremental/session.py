"""Requests of one lane on one API, one after another, and bookmarks from which another process continues.

A bookmark keeps the messages that were written of the frozen prefix, instead of its entries. If anything
would change one of these messages, the request is rebuilt from the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import chain, islice, starmap
from typing import Any, NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.errors import AgentNotFoundError, UnsupportedVersionError
from stenolog.domain.parts import TextPart
from stenolog.domain.policy import Policy
from stenolog.domain.settings import Settings
from stenolog.domain.state import blocked_reason
from stenolog.projections.requests.body_digest import conversation
from stenolog.projections.requests.pipeline import prompt
from stenolog.projections.requests.pipeline.budget import caps
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
    Role,
)
from stenolog.projections.requests.rules import CUTS
from stenolog.projections.requests.wires import APIS, Api
from stenolog.projections.requests.wires.writer import Writer
from stenolog.projections.tool_pairs import CallKey

from .frozen import FrozenAndTail, FrozenPrefix, called_in
from .sendable import goes_on, may_be_asked, over_budget, since_last_turn, unknown, unnamed, unsendable_reason
from .snapshot import WindowSnapshot, runs
from .window import Window


class BrokenWindow(Exception):
    """A window that goes on from a bookmark cannot go on: the request must be made of the log."""


SHED = 64
"""So many units are let go of at once."""
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
    before it; all bodies share them, and nobody may change them. `explain` tells where the parts of the
    request at a position come from, once the window is partial.
    """

    def __init__(self, window: Window, api: str | Api, blobs: Mapping[str, bytes] = EMPTY_BLOBS) -> None:
        self.window, self.api, self.blobs = window, _api(api), blobs
        self.settled = 0
        self.explain: Callable[[int], Explanation] | None = None
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
        if window.partial and self.explain is not None:
            explained = partial(self.explain, window.position)
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

    def resume(self, mark: Bookmark, messages: list[Body]) -> bool:
        """Go on from a bookmark with the messages that were kept beside it, in a window that goes on from
        there, too; whether that can be: under another prefix they are other messages."""
        view = self._view()
        if self.api.writer is None or fingerprint(view.front) != mark.prefix or view.first:
            return False
        self._writer = self.api.writer(view.front, self.blobs, explaining=False)
        self._writer.resume(messages, mark.ids)
        self._rests_on, self._written = (view.told.settled, view.front, view.first), 0
        return True

    def shed(self) -> None:
        """Let go of what was written, but for the messages themselves: no other API can write it then, and
        nobody can ask this window what it was made of. The next requests are quicker, and memory is freed.
        """
        if len(self.window.settled.units) >= SHED and self._has_written_all():
            self.window.shed()
            assert self._rests_on is not None
            self._rests_on = (self.window.settled, *self._rests_on[1:])
            self._written = 0

    def bookmark(self) -> tuple[Bookmark, list[Body]] | None:
        """Return a bookmark and the frozen messages, or None if nothing can be stored."""
        if self._writer is None or not self._has_written_all():
            return None
        mark = bookmark(self.window, self._writer)
        return None if mark is None else (mark, self._writer.sheet.messages)

    def _has_written_all(self) -> bool:
        """Return whether the whole frozen prefix is written and cannot change, which no cap may cut."""
        policy, settled = self.window.policy, self.window.settled
        if self._writer is None or self._rests_on is None or caps(policy) or depends_on_tail(policy):
            return False
        return self._rests_on[0] is settled and self._written == len(settled.units)

    def _written_down(self, view: _View, explain: _Asked) -> tuple[Body, Callable[[], Explanation]]:
        """The body, and what explains it."""
        if self.api.writer is None:
            if self.window.partial:
                raise BrokenWindow
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
            if self.window.partial:
                raise BrokenWindow
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


class Bookmark(NamedTuple):
    """A snapshot of a window and its frozen prefix, with the state of the writer.

    `mark` has the window with the entries that may still change. Of the frozen entries, up to position
    `last`, it has the `calls` made, the `tools` called, and the `role` (empty: none) and position
    (`word`) of the last message. `prefix` is the fingerprint of the writer's prefix. `messages` is the
    number of written messages, which are stored beside it. `ids` are the ids given to calls.
    """

    mark: WindowSnapshot
    last: int
    calls: tuple[tuple[int, int], ...]
    tools: tuple[str, ...]
    role: Role | str
    word: int
    prefix: str
    ids: tuple[str, ...]
    messages: int


def bookmark(window: Window, writer: Writer) -> Bookmark | None:
    """The bookmark of a window whose settled units are written; None where their messages cannot be kept."""
    settled, sheet = window.settled, writer.sheet
    unanswered = settled.answer is not None and not settled.answer.complete
    if unanswered or sheet.missing or sheet.holds_blobs or not sheet.messages:
        return None
    behind = [row.entry.position for row in window.rows[settled.rows :]]
    pairs = tuple(p for p in window.pairing.pairs.values() if p.result > settled.last)
    end = settled.end
    return Bookmark(
        mark=window.snapshot._replace(
            rows=tuple(runs(behind)), pairs=pairs, summaries=(), left_out=(), private=()
        ),
        last=settled.last,
        calls=tuple(sorted(settled.called)),
        tools=tuple(settled.tools),
        role=end.role if end else "",
        word=end.positions[-1] if end and end.positions else 0,
        prefix=fingerprint(writer.prefix),
        ids=tuple(writer.ids.ids),
        messages=len(sheet.messages),
    )


def settled_by(mark: Bookmark) -> FrozenPrefix:
    """Return the frozen prefix, without its units."""
    settled = FrozenPrefix()
    settled.last = mark.last
    settled.called = {*starmap(CallKey, mark.calls)}
    settled.tools = dict.fromkeys(mark.tools)
    if mark.role:
        role: Any = mark.role
        settled.before = Message(role, (TextPart(text=""),), (mark.word,), "settled")
    return settled


def fingerprint(prefix: Prefix) -> str:
    """Return a hash that identifies a prefix across processes."""
    said = (*prefix._replace(stubs=frozenset())[:-1], sorted(prefix.stubs), prefix.counter.id)
    return sha256(repr(said).encode(errors="backslashreplace")).hexdigest()
