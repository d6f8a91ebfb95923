"""Requests of one lane on one API, one after another: each is made of what is new since the one before it.

    session = RequestSession(window, "anthropic")
    for entry in entries:
        window.take(entry)
        print(session.request().size)

A request begins with nearly all of the previous one. So a session keeps what no later entry can change, as
messages and as text of the body (`FrozenPrefix`, `Writer`), and writes only the rest.
`builder.build_reference` is the definition; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.projections.formats import format_of
from stenolog.projections.formats.base import Format
from stenolog.projections.formats.writer import EarlierMessages, Writer
from stenolog.projections.messages.body_digest import MessageHash, conversation
from stenolog.projections.messages.explanation import Explanation, LazyExplanation, Omission, tokens_of
from stenolog.projections.messages.message import EMPTY_BLOBS, Body, Message, Preamble, Rendered
from stenolog.projections.requests.pipeline.budget import since_last_turn
from stenolog.projections.requests.pipeline.must_stay import positions_of
from stenolog.projections.requests.pipeline.omissions import dropped
from stenolog.projections.requests.pipeline.prompt import (
    AT_FIRST,
    Surroundings,
    surround,
    tools_called,
    with_away,
)
from stenolog.projections.requests.pipeline.tool_groups import preview_note
from stenolog.projections.requests.request import Request
from stenolog.projections.requests.sendable import check_askable, finished

from .frozen import FrozenAndTail, Unit, WindowRow
from .snapshot import CapturedSession, ResumableSession, captured, fingerprint, quotes_pins
from .window import PartialWindowError, Window

NOT_DELIVERED = frozenset[int]()


class SentUnits:
    """The units of a frozen prefix as they are sent: with notes around messages that the lane missed."""

    def __init__(self, window: Window, stored: ResumableSession | None) -> None:
        self.frozen, self.away = window.frozen, AT_FIRST if stored is None else stored.written.away
        self.units: list[Unit] = window.frozen.units if window.policy.away is None else []
        self._number = self._rows = 0

    def extend(self, window: Window, told: FrozenAndTail) -> None:
        """Add the units that were frozen since the last time, with their notes."""
        fresh, rows = told.frozen.units[self._number : told.number], window.rows[self._rows : told.rows]
        shown = (row.entry for row in rows if row.entry.position not in told.frozen.left_out)
        titled, self.away = with_away(window, fresh, shown, self.away)
        self.units += titled
        self._number, self._rows = told.number, told.rows


class Inputs(NamedTuple):
    """All that a request is made of: the conversation, what surrounds it, what was delivered before.

    Of `sent` the first `number` units are sent; without it, all of the frozen prefix was delivered.
    """

    told: FrozenAndTail
    around: Surroundings
    rest: tuple[Message, ...]
    delivered: frozenset[int]
    end: Message | None
    sent: SentUnits | None
    number: int

    @property
    def messages(self) -> list[Message]:
        """Everything that is written, in order."""
        units = islice(self.sent.units, self.number) if self.sent else ()
        return [*self.around.first, *chain.from_iterable(units), *self.rest]

    @property
    def had(self) -> frozenset[int]:
        """The positions that were delivered before."""
        units = () if self.sent else islice(self.told.frozen.units, self.told.number)
        return self.delivered.union(*map(positions_of, units))


@dataclass(slots=True)
class ExplainedLater:
    """An explanation made when asked for: all is written again."""

    inputs: Inputs
    api: Format
    blobs: Mapping[str, bytes]
    runs: tuple[Omission, ...]
    rows: Sequence[WindowRow]
    number: int

    def __call__(self, rendered: Rendered | None = None) -> Explanation:
        inputs, told = self.inputs, self.inputs.told
        messages, preamble = inputs.messages, inputs.around.preamble
        made = rendered or self.api.rendered(messages, preamble, self.blobs)
        rules = dict.fromkeys(inputs.had, "delivered")
        for nth, row in enumerate(islice(self.rows, self.number)):
            left_out = told.frozen.left_out if nth < told.rows else told.left_out
            if row.entry.position in left_out:
                rules[row.entry.position] = left_out[row.entry.position]
        entries = [row.entry for row in self.rows[: self.number]]
        gone = dropped(self.runs, entries, rules, messages, made.omitted, preamble.counter)
        unread = {position for position, rule in rules.items() if rule != "delivered"}
        read = {entry.position for entry in entries if entry.position not in unread}
        read.update(position for part in made.parts for position in part.positions)
        return Explanation(made.parts, tuple(gone), frozenset(read))


class RequestSession:
    """The requests of a window on an API. Ask after each entry, or after many.

    `explained`: parts are explained as they are written, for callers that ask for every explanation.
    """

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
        self._made: Request | None = None
        self._rest: tuple[Message, ...] = ()
        self.writer: Writer | None = None
        self._writer_rests_on: tuple[SentUnits | None, Preamble, tuple[Message, ...]] | None = None
        self._sent: SentUnits | None = None
        self._written = 0
        self._around: Surroundings
        self._around_rests_on: object = None
        self._stored: ResumableSession | None = None
        self._earlier: EarlierMessages | None = None

    def resume(self, stored: ResumableSession) -> None:
        """Go on from another process's snapshot, with the window."""
        self._stored = stored

    @property
    def is_storable(self) -> bool:
        """True if what is written can be stored; otherwise another process reads the window's entries."""
        # The last messages are cut with each turn.
        is_new = self.window.policy.history.window[0] is not None or quotes_pins(self.window)
        return not (is_new or self._sent is None) and self.writer is not None and self.writer.is_storable

    def captured(self, stored: int = 0) -> CapturedSession | None:
        """Return the captured session without the first `stored` segments; None if there is none."""
        writer, rests_on, sent = self.writer, self._writer_rests_on, self._sent
        if writer is None or rests_on is None or sent is None or sent.frozen is not self.window.frozen:
            return None
        return captured(self.window, writer, rests_on[2], sent.away, stored)

    def request(self) -> Request:
        """Return the window's request now; until the window takes an entry, only its body is made again.

        Raises `UnsupportedVersionError`, `AgentNotFoundError`.
        """
        if self._made is not None and self._made.at == self.window.position and self.writer is not None:
            return self._with_body(self._made, self.writer.body(self._rest))
        made = self._built()
        # A blob that was missing may be there by the next time.
        self._made = None if self.writer is None or self.window.measure.missing else made
        return made

    def _with_body(self, made: Request, body: Body) -> Request:
        # A caller may change the body that it was given.
        request = made.with_body(body, self._hash(body))
        return request if self._earlier is None else request.after(self._earlier)

    def _hash(self, body: Body) -> MessageHash | None:
        messages = conversation(body, self.api.messages)
        return self.writer.encoded(messages) if self.writer and isinstance(messages, list) else None

    def _built(self) -> Request:
        window = self.window
        check_askable(window)
        if self.writer is not None and self.writer.earlier is not None:
            self.writer.hold_earlier()
        inputs = self._inputs()
        explain: Callable[..., Explanation] = ExplainedLater(
            inputs, self.api, self.blobs, tuple(window.left_out), window.rows, len(window.rows)
        )
        if window.whole is not None:
            explain = self._explained_anew(window.whole, window.position)
        body, explained = self._written_down(inputs, explain)
        lazy = LazyExplanation(explained)
        media = self.writer is None or self.writer.builder.has_media
        fits = window.surely_fits
        self._rest = inputs.rest
        request = finished(
            window,
            self.api,
            body,
            lazy,
            inputs.end,
            window.contents,
            inputs.around.renamed,
            surely_fits=fits,
            has_media=media,
            encoded=self._hash(body),
        )
        return request if self._earlier is None else request.after(self._earlier)

    def _explained_anew(self, whole: Callable[[int], Window], position: int) -> Callable[[], Explanation]:
        api, blobs = self.api, self.blobs
        return lambda: RequestSession(whole(position), api, blobs).request().estimated

    def _written_down(
        self, inputs: Inputs, explain: Callable[..., Explanation]
    ) -> tuple[Body, Callable[[], Explanation]]:
        # An API of a plugin may render only a whole body.
        if self.api.writer is None:
            self.window.check_whole()
            whole = self.api.rendered(inputs.messages, inputs.around.preamble, self.blobs)
            return whole.body, lambda: explain(whole)
        writer = self._at_work(inputs, self.api.writer)
        builder, self._earlier = writer.builder, writer.earlier
        self._write_frozen(writer, inputs)
        parts, omitted = len(builder.parts), len(builder.omitted)
        body = writer.body(inputs.rest)
        # What stands for a missing blob must not be frozen: the blob may be there by the next request.
        if builder.missing:
            self.writer = None
        if not self.explained:
            return body, explain
        rendered = Rendered(body, tuple(builder.parts), tuple(builder.omitted))
        del builder.parts[parts:], builder.omitted[omitted:]
        return body, lambda: explain(rendered)

    def _write_frozen(self, writer: Writer, inputs: Inputs) -> None:
        if inputs.sent is not None and self._written < inputs.number:
            fresh = islice(inputs.sent.units, self._written, inputs.number)
            writer.write([*chain.from_iterable(fresh)])
            self._written = inputs.number

    def _inputs(self) -> Inputs:
        window, told = self.window, self.window.frozen_and_tail()
        policy, frozen, delivered = window.policy, told.frozen, NOT_DELIVERED
        units: Sequence[Unit] = told.units
        if window.may_continue and window.continues_session:
            rows = [row.entry for row in window.rows[told.rows :]]
            units, delivered = since_last_turn(window, told.units, rows)
            sent = None
        elif self._sent is None or self._sent.frozen is not frozen:
            sent = SentUnits(window, self._stored)
        else:
            sent = self._sent
        self._sent = sent
        if policy.away is not None:
            if sent is not None:
                sent.extend(window, told)
            units, _ = with_away(window, units, told.entries, sent.away if sent else AT_FIRST)
        said = [message for unit in units for message in unit]
        called = tools_called(said)
        end = said[-1] if said else None
        if sent is not None:
            called, end = {**frozen.tools, **called}, end or frozen.end
        around = self._surround(called, [*frozen.pinned, *told.entries])
        rest = (*said, *preview_note(end), *around.behind)
        return Inputs(told, around, rest, delivered, end, sent, len(sent.units) if sent else 0)

    def _surround(self, tools: dict[str, None], entries: list[Entry]) -> Surroundings:
        window, own, policy = self.window, self.window.memory, self.window.policy
        cuts = window.cuts, policy.instructions is not None and window.summarised
        # Everything that the text around the conversation is made of; most entries change none of it.
        # A tuple of the tools: equal dictionaries may be in another order, and the order is sent.
        rests_on = (window.settings, own.set_at, own.handoff, own.model, cuts, (*tools,))
        asks = policy.reminder is not None or window.may_continue
        if asks or self._around_rests_on != rests_on:
            self._around, self._around_rests_on = surround(window, tools, entries), rests_on
        return self._around

    def _at_work(self, inputs: Inputs, writer: type[Writer]) -> Writer:
        # What stands before the conversation is part of the body's beginning, so a change of it writes all
        # anew.
        preamble, first = inputs.around.preamble, inputs.around.first
        rests_on = (inputs.sent, preamble, first)
        if self.writer is None or inputs.sent is None or self._writer_rests_on != rests_on:
            stored, self._stored = self._stored, None
            if inputs.sent is None:
                stored = None
            elif self.window.whole is not None and (
                stored is None or stored.written.rests_on != fingerprint(preamble, first)
            ):
                raise PartialWindowError
            self.writer = writer(preamble, self.blobs, explaining=self.explained)
            if stored is None:
                self.writer.write(first)
            else:
                stored.resume(self.writer)
            self._writer_rests_on, self._written = rests_on, 0
        return self.writer


class TokenMeter(RequestSession):
    """Counter of the `size.tokens` of a window's request now.

    A request counts part by part, so all of it would be explained for each. `is_missing`: a blob was missing,
    and its line was counted.
    """

    def __init__(self, window: Window, api: str | Format, blobs: Mapping[str, bytes] = EMPTY_BLOBS) -> None:
        super().__init__(window, api, blobs, explained=True)
        self._counted: Writer | None = None
        self._parts = self._frozen = 0
        self.is_missing = False

    def tokens(self) -> int:
        """Return the tokens of the request. Raises as `request`."""
        if self.api.writer is None:
            return self.request().size.tokens
        check_askable(self.window)
        inputs = self._inputs()
        writer = self._at_work(inputs, self.api.writer)
        self._write_frozen(writer, inputs)
        builder = writer.builder
        if self._counted is not writer:
            self._counted, self._parts, self._frozen = writer, 0, 0
        self._frozen += tokens_of(builder.parts[self._parts :])
        self._parts = len(builder.parts)
        writer.body(inputs.rest)
        tail = tokens_of(builder.parts[self._parts :])
        del builder.parts[self._parts :]
        builder.omitted.clear()
        found = self._frozen + tail
        # What stands for a missing blob must not be frozen: the blob may be there by the next request.
        if builder.missing:
            self.writer, self.is_missing = None, True
        return self.window.rate.of(found)
