"""Requests of one lane on one API, one after another: each is made of what is new since the one before it.

    for window in windows(log, LaneId("coder"), None):
        session = session or RequestSession(window, "anthropic")
        print(session.request().size)

A request begins with nearly all of the one before it. So a session keeps what no later entry can change, as
messages and as text of the body (`FrozenPrefix`, `Writer`), and writes only what follows. What a request is
defines `builder.build_reference`; a session gives the same, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.errors import InvalidPolicyError
from stenolog.domain.policy import Policy, PolicyLike
from stenolog.domain.settings import NOTHING, configure, settings
from stenolog.projections.formats import DEFAULT_API, format_of
from stenolog.projections.formats.base import Format
from stenolog.projections.formats.writer import Writer
from stenolog.projections.messages.body_digest import conversation
from stenolog.projections.messages.explanation import Explanation, LazyExplanation, Omission
from stenolog.projections.messages.message import EMPTY_BLOBS, Body, Message, Preamble, Rendered
from stenolog.projections.messages.sizes import COUNTERS, ESTIMATE, Counter
from stenolog.projections.requests.builder import choose
from stenolog.projections.requests.pipeline.budget import since_last_turn
from stenolog.projections.requests.pipeline.lane import LaneId
from stenolog.projections.requests.pipeline.omissions import dropped
from stenolog.projections.requests.pipeline.prompt import Surroundings, surround, tools_called, with_away
from stenolog.projections.requests.pipeline.tool_groups import preview_note
from stenolog.projections.requests.request import Request
from stenolog.projections.requests.sendable import check_askable, finished, takes_part

from .frozen import FrozenAndTail, FrozenPrefix, WindowRow
from .window import Window


class Inputs(NamedTuple):
    """All that a request is made of: what is told, what stands around it, and what had been delivered."""

    told: FrozenAndTail
    first: tuple[Message, ...]
    rest: tuple[Message, ...]
    preamble: Preamble
    delivered: frozenset[int]
    end: Message | None

    @property
    def messages(self) -> list[Message]:
        """Everything that is written, in order."""
        units = islice(self.told.frozen.units, self.told.number)
        return [*self.first, *chain.from_iterable(units), *self.rest]


@dataclass(slots=True)
class ExplainedLater:
    """Explains a request once somebody asks: all of it is written again, and each part explained."""

    inputs: Inputs
    api: Format
    blobs: Mapping[str, bytes]
    runs: tuple[Omission, ...]
    rows: Sequence[WindowRow]
    number: int

    def __call__(self, rendered: Rendered | None = None) -> Explanation:
        inputs, told = self.inputs, self.inputs.told
        messages = inputs.messages
        made = rendered or self.api.rendered(messages, inputs.preamble, self.blobs)
        rules = dict.fromkeys(inputs.delivered, "delivered")
        for nth, row in enumerate(islice(self.rows, self.number)):
            left_out = told.frozen.left_out if nth < told.rows else told.left_out
            if row.entry.position in left_out:
                rules[row.entry.position] = left_out[row.entry.position]
        entries = [row.entry for row in self.rows[: self.number]]
        gone = dropped(self.runs, entries, rules, messages, made.omitted, inputs.preamble.counter)
        unread = {position for position, rule in rules.items() if rule != "delivered"}
        read = {entry.position for entry in entries if entry.position not in unread}
        read.update(position for part in made.parts for position in part.positions)
        return Explanation(made.parts, tuple(gone), frozenset(read))


class RequestSession:
    """The requests of a window on an API. Ask after each entry that the window takes, or after many.

    `shared`: so many messages at the beginning of the last body are the very objects that stood in the body
    before it; all bodies share them, and nobody may change them. `explained`: each is written with its parts,
    which takes less time than both one after the other.
    """

    explaining = False
    """True where the writer explains each part at once, and not only where somebody asks."""

    def __init__(
        self,
        window: Window,
        api: str | Format,
        blobs: Mapping[str, bytes] = EMPTY_BLOBS,
        *,
        explained: bool = False,
    ) -> None:
        self.explained = explained
        self.window, self.api, self.blobs = window, format_of(api), blobs
        self.shared = 0
        self.writer: Writer | None = None
        self._writer_rests_on: tuple[FrozenPrefix, Preamble, tuple[Message, ...]] | None = None
        self._written = 0
        self._around: Surroundings
        self._around_rests_on: object = None

    def request(self) -> Request:
        """Return the request of the window now. Raises `UnsupportedVersionError`, `AgentNotFoundError`."""
        window = self.window
        check_askable(window)
        inputs = self._inputs()
        explain = ExplainedLater(
            inputs, self.api, self.blobs, tuple(window.left_out), window.rows, len(window.rows)
        )
        body, explained = self._written_down(inputs, explain)
        lazy = LazyExplanation(explained)
        media = self.writer is None or self.writer.builder.has_media
        fits = window.surely_fits
        request = finished(
            window, self.api, body, lazy, inputs.end, window.contents, surely_fits=fits, has_media=media
        )
        messages = conversation(body, self.api.messages)
        if self.writer is not None and isinstance(messages, list):
            return replace(request, encoded=self.writer.encoded(messages))
        return request

    def _written_down(
        self, inputs: Inputs, explain: ExplainedLater
    ) -> tuple[Body, Callable[[], Explanation]]:
        """Return the body, and its explanation."""
        # An API of a plugin may render only a whole body.
        if self.api.writer is None or self.explained:
            rendered = self.api.rendered(inputs.messages, inputs.preamble, self.blobs)
            return rendered.body, lambda: explain(rendered)
        before = self.writer
        writer = self._at_work(inputs, self.api.writer)
        savepoint = writer.builder.savepoint()
        self._write_frozen(writer, inputs.told)
        body = writer.body(inputs.rest)
        self.shared = savepoint.unchanged(conversation(body, self.api.messages)) if writer is before else 0
        # What stands for a missing blob must not be frozen: the blob may be there by the next request.
        if writer.builder.missing:
            self.writer = None
        return body, explain

    def _write_frozen(self, writer: Writer, told: FrozenAndTail) -> None:
        """Write the units that were frozen since the last request."""
        if self._written < told.number:
            fresh = islice(told.frozen.units, self._written, told.number)
            writer.write([*chain.from_iterable(fresh)])
            self._written = told.number

    def _inputs(self) -> Inputs:
        window = self.window
        if depends_on_tail(window):
            told, delivered, entries = _render_all(window)
        else:
            told, delivered, entries = window.frozen_and_tail(), frozenset[int](), []
        said = [message for unit in told.units for message in unit]
        end = said[-1] if said else told.frozen.end
        around = self._surround({**told.frozen.tools, **tools_called(said)}, entries)
        rest = (*said, *preview_note(end), *around.behind)
        return Inputs(told, around.first, rest, around.preamble, delivered, end)

    def _surround(self, tools: dict[str, None], entries: list[Entry]) -> Surroundings:
        """Return the text around the conversation; rebuild it if something that it depends on has changed."""
        window, own = self.window, self.window.memory
        turns = own.turns if window.policy.reminder is not None else 0
        cuts = window.cuts, window.policy.instructions is not None and window.summarised
        goes_on = window.continues_session
        # Everything that the text around the conversation is made of; most entries change none of it.
        # A tuple of the tools: equal dictionaries may be in another order, and the order is sent.
        rests_on = (window.settings, own.set_at, own.handoff, own.model, turns, cuts, (*tools,), goes_on)
        if entries or self._around_rests_on != rests_on:
            self._around, self._around_rests_on = surround(window, tools, entries), rests_on
        return self._around

    def _at_work(self, inputs: Inputs, writer: type[Writer]) -> Writer:
        """Return the writer of the frozen prefix: a new one if that has changed."""
        # What stands before the conversation is part of the body's beginning, so a change of it writes all
        # anew.
        rests_on = (inputs.told.frozen, inputs.preamble, inputs.first)
        if self.writer is None or self._writer_rests_on != rests_on:
            self.writer = writer(inputs.preamble, self.blobs, explaining=self.explaining)
            self.writer.write(inputs.first)
            self._writer_rests_on, self._written = rests_on, 0
        return self.writer


def depends_on_tail(window: Window) -> bool:
    """Return whether the policy makes the frozen prefix depend on later entries."""
    policy = window.policy
    return policy.away is not None or policy.history.delta or policy.reminder is not None


def _render_all(window: Window) -> tuple[FrozenAndTail, frozenset[int], list[Entry]]:
    """Render everything at once: the prefix, the delivered entries, and the entries that are shown."""
    shown = window.contents()
    units, had = since_last_turn(window, shown.units)
    units = with_away(units, shown.entries, window.lane, window.policy.away, window.memory.began)
    return FrozenAndTail(FrozenPrefix(), 0, 0, units, shown.left_out), had, shown.entries


def build(
    entries: Iterable[Entry],
    agent: str,
    *,
    task: str = "",
    api: str | Format = DEFAULT_API,
    policy: PolicyLike = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Request:
    """Build the request that the lane (agent, task) would send after these entries, on an API.

    The same as by `builder.build_reference`, which defines it, but in time proportional to the log.
    `policy` None is the one on the agent's card. An agent that is new has an empty card. Raises
    `AgentNotFoundError` where its name may be a slip for that of a known one, `UnsupportedVersionError` where
    an entry needs one, `InvalidPolicyError`.
    """
    log = list(entries)
    now = settings(log) if policy is None else NOTHING
    chosen, counter = choose(now, agent, policy, counters)
    return from_window(window(LaneId(agent, task), chosen, log, counter, blobs), api, blobs)


def every_request(
    entries: Iterable[Entry],
    agent: str,
    *,
    task: str = "",
    api: str | Format = DEFAULT_API,
    policy: PolicyLike = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Iterator[Request]:
    """Yield the lane's request after each entry from the first that it takes part in. Raises as `build`."""
    log = list(entries)
    session: RequestSession | None = None
    for window in windows(log, LaneId(agent, task), policy, counters, blobs):
        if session is None or session.window is not window:
            session = RequestSession(window, api, blobs)
        if takes_part(window):
            yield session.request()


def windows(
    log: Sequence[Entry],
    lane: LaneId,
    given: PolicyLike,
    counters: Mapping[str, Counter] = COUNTERS,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
) -> Iterator[Window]:
    """Yield the lane's window after each entry: one window, unless the policy on its card changes.

    A policy that cannot be used has no windows until a later one mends it. Raises `InvalidPolicyError` at the
    end where none did.
    """
    now, made = NOTHING, None
    refused: InvalidPolicyError | None = None
    for length, entry in enumerate(log, 1):
        before, now = now, configure(now, entry)
        changed = before.card_of(lane.agent).policy != now.card_of(lane.agent).policy
        # A policy counts as though it had always been in force: a new one reads the log from its start.
        if length == 1 or (given is None and changed):
            made = refused = None
            try:
                chosen, counter = choose(now, lane.agent, given, counters)
                made = window(lane, chosen, log[:length], counter, blobs)
            except InvalidPolicyError as error:
                refused = error
        elif made is not None:
            made.take(entry)
        if made is not None:
            yield made
    if refused is not None:
        raise refused


def window(
    lane: LaneId,
    policy: Policy,
    entries: Iterable[Entry],
    counter: Counter = ESTIMATE,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
) -> Window:
    """Return the window of a lane after all the entries of a log."""
    made = Window(lane, policy, counter, blobs=blobs)
    for entry in entries:
        made.take(entry)
    return made


def from_window(
    window: Window, api: str | Format, blobs: Mapping[str, bytes] = EMPTY_BLOBS, *, explained: bool = False
) -> Request:
    """Return the request of a window. `explained`: its parts are asked for, so they are made at once."""
    return RequestSession(window, api, blobs, explained=explained).request()
