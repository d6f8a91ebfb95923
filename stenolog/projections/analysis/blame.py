"""Chain of causes from a tool call or an answer back to a person's words, by references between entries.

Every link is a field of an entry, or the engine's own fold at the position that a receipt names. If the log
records neither, the chain ends there and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from stenolog.domain import events
from stenolog.domain.entry import Entry
from stenolog.domain.erasure import is_checkpointed, is_erased
from stenolog.domain.errors import PositionNotFoundError, UnsupportedVersionError
from stenolog.domain.lanes.handoffs import handing_call
from stenolog.domain.lanes.state import State, address
from stenolog.domain.lanes.state import in_words as spans_in_words
from stenolog.domain.lanes.step import fold
from stenolog.domain.lanes.turn_taking import control_targets
from stenolog.domain.values import Control
from stenolog.projections.requests import build
from stenolog.projections.views.lines import call_in_words, describe
from stenolog.projections.views.timeline import erasures
from stenolog.projections.views.tool_pairs import CallKey, ToolCallIndex, pair

POSSIBLE = 3
"""Number of persons' messages listed as possible causes if the log records no cause."""


class BlameLink(NamedTuple):
    """One link of the chain: an entry, its author, its words, and the field that leads to it.

    `field` belongs to the entry before it in the chain, except `control.call`: there this entry names a call
    of the one before. It is "" for the first, and for mere possibilities. `call` is the index of the call
    that is meant. `person`: these are the words of a person.
    """

    position: int
    kind: str
    who: str
    text: str
    field: str
    person: bool
    call: int | None = None


class Blame(NamedTuple):
    """The chain, from what was asked about back to a person.

    `gap` says why it ends before one, else "". `possible` are then persons' words, and briefs for the agent,
    in the request's view, the latest first: any may be meant, or none.
    """

    links: tuple[BlameLink, ...]
    gap: str = ""
    possible: tuple[BlameLink, ...] = ()

    @property
    def end(self) -> str:
        """The end of the chain in words; empty if its links show it."""
        if self.gap or len(self.links) != 1:
            return self.gap
        return f"entry {self.links[0].position} is the beginning: a person said it"


class _Cause(NamedTuple):
    """Cause of an entry: its position (0: none), the field that names it, and the call there."""

    position: int
    field: str
    call: int | None = None


NO_CAUSE = _Cause(0, "")


def blame(entries: Iterable[Entry], position: int, call: int | None = None) -> Blame:
    """Return the chain from the entry at a position, or from its call of that index (from 0).

    Raises `PositionNotFoundError` for an unknown entry or call.
    """
    chain = _Chain(list(entries))
    chain.check(position, call)
    return chain.followed(_Cause(position, "", call))


class _Chain:
    """Facts about the whole log, while a chain is followed."""

    def __init__(self, log: Sequence[Entry]) -> None:
        self.log = log
        self.at = {entry.position: entry for entry in log}
        self.calls: Mapping[int, CallKey | None] = pair(log).calls

    def check(self, position: int, call: int | None) -> None:
        """Raise `PositionNotFoundError` for an unknown entry, or call in it."""
        if position not in self.at:
            raise PositionNotFoundError(f"expected a position from 1 to {len(self.log)}, found {position}")
        calls = len(getattr(self.at[position].event, "tool_calls", ()))
        if call is not None and not 0 <= call < calls:
            raise PositionNotFoundError(
                f"entry {position}: expected one of its {calls} calls, found {call + 1}"
            )

    def followed(self, start: _Cause) -> Blame:
        links: list[BlameLink] = []
        lane, cause = "", start
        while True:
            entry = self.at[cause.position]
            links.append(self._with_reason(_link(entry, cause.field, cause.call)))
            links += self._judgements(entry, cause.call)
            lane = _lane_of(entry.event) or lane
            cause = self._cause(entry, lane)
            if not 0 < cause.position < entry.position:
                if _is_person(entry.event):
                    return Blame(tuple(links))
                return Blame(tuple(links), self._gap(entry, cause), tuple(self._possible(entry)))

    def _with_reason(self, link: BlameLink) -> BlameLink:
        if not is_erased(self.at[link.position].event):
            return link
        return link._replace(text=erasures(self.log).get(link.position, link.text))

    def _gap(self, entry: Entry, cause: _Cause) -> str:
        if is_erased(entry.event):
            words = erasures(self.log).get(entry.position, describe(entry).what)
            return f"entry {entry.position} is {words}"
        return _gap(entry, cause)

    def _cause(self, entry: Entry, lane: str) -> _Cause:
        event = entry.event
        match event:
            case events.UserMessage(control=Control(action="continue") as control):
                return _Cause(self._failed(entry, control, lane), "control")
            case events.UserMessage(author_kind="person"):
                return NO_CAUSE
            case events.UserMessage(cause=int(cause)):
                return _Cause(cause, "cause", handing_call(event))
            case events.AssistantMessage() | events.LlmError() if event.cause is not None:
                return _Cause(event.cause, "cause")
            case events.AssistantMessage() | events.LlmError() if event.receipt is not None:
                return _Cause(self._state(event.receipt.view).lane(lane).asked, "receipt.view")
            case events.ToolResult():
                key = self.calls.get(entry.position)
                field = "call_id" if event.call is None else "call"
                return _Cause(key.position, field, key.nth) if key else NO_CAUSE
            case _:
                return NO_CAUSE

    def _failed(self, entry: Entry, control: Control, lane: str) -> int:
        """Return the lane's last error, which a `continue` takes up again; 0: none."""
        meant = {found.address for found in control_targets(self._state(entry.position - 1), control)}
        wanted = {lane} & meant or meant
        errors = (
            before.position
            for before in reversed(self.log[: entry.position - 1])
            if isinstance(before.event, events.LlmError) and _lane_of(before.event) in wanted
        )
        return next(errors, 0)

    def _state(self, at: int) -> State:
        return fold(self.log[:at])

    def _judgements(self, entry: Entry, call: int | None) -> Iterator[BlameLink]:
        """Yield approvals and refusals of the entry's calls, or of the one meant."""
        if not isinstance(entry.event, events.AssistantMessage) or not entry.event.tool_calls:
            return
        for later in self.log[entry.position :]:
            match later.event:
                case events.UserMessage(control=control) if control is not None and control.call is not None:
                    named = control.call
                    if named.entry == entry.id and call in (None, named.index):
                        yield _link(later, "control.call", named.index)
                case _:
                    pass

    def _possible(self, entry: Entry) -> Iterator[BlameLink]:
        """Yield the latest words in its view that an answer without a recorded cause may answer."""
        event = entry.event
        if isinstance(event, events.UserMessage) and event.author_kind == "agent":
            yield from self._possible_calls(entry, event.author)
        if not isinstance(event, events.AssistantMessage | events.LlmError):
            return
        try:
            view = build(self.log[: entry.position], event.agent, task=event.task)
        except UnsupportedVersionError:  # nobody knows what it was shown
            return
        seen = {position for part in view.parts for position in part.positions if position < entry.position}
        lane = _lane_of(event)
        shown = (self.at[position] for position in sorted(seen, reverse=True))
        words = [quote for quote in shown if _is_person(quote.event) or _is_brief(quote.event, lane)]
        for quote in words[:POSSIBLE]:
            yield _link(quote, "", None)

    def _possible_calls(self, entry: Entry, author: str) -> Iterator[BlameLink]:
        """Yield the latest earlier calls of a brief's author, any of which may have given it."""
        found = 0
        for before in reversed(self.log[: entry.position - 1]):
            event = before.event
            if found < POSSIBLE and isinstance(event, events.AssistantMessage) and event.agent == author:
                for nth in range(len(event.tool_calls))[: POSSIBLE - found]:
                    found += 1
                    yield _link(before, "", nth)


def _link(entry: Entry, field: str, call: int | None) -> BlameLink:
    who, text = describe(entry)
    if isinstance(entry.event, events.AssistantMessage) and call is not None:
        text = f"→ {call_in_words(entry.event.tool_calls[call])}"
    return BlameLink(entry.position, entry.event.kind, who, text, field, _is_person(entry.event), call)


def _is_person(event: events.Event) -> bool:
    return isinstance(event, events.UserMessage) and event.author_kind == "person"


def _is_brief(event: events.Event, lane: str) -> bool:
    return isinstance(event, events.UserMessage) and event.author_kind == "agent" and lane in event.to


def _lane_of(event: events.Event) -> str:
    return (
        address(event.agent, event.task)
        if isinstance(event, events.AssistantMessage | events.LlmError)
        else ""
    )


def _gap(entry: Entry, cause: _Cause) -> str:
    event, where = entry.event, f"entry {entry.position}"
    if cause.position:
        return f"{where} names {cause.position} by `{cause.field}`, which does not stand before it"
    source = getattr(event, "source", None)
    if isinstance(event, events.ToolResult):
        return f"{where} is a result whose call is not in the log"
    if isinstance(event, events.Unknown):
        return f"{where} is of a kind that this release does not know"
    if isinstance(event, events.ModeSwitch):
        return f"{where} is a setting; who changed it is not recorded"
    if (
        isinstance(event, events.UserMessage)
        and event.author_kind in ("schedule", "system")
        and source is None
    ):
        return f"{where} is the beginning: the {event.author_kind} said it, and names no cause"
    if source is not None and (imported := _imported_gap(event, source.system, where)):
        return imported
    missing = "a cause" if isinstance(event, events.UserMessage) else "a cause or a receipt"
    is_live = source is None or is_checkpointed(event)  # LangGraph's saver names the message that it records
    imported = " was recorded" if is_live or source is None else f" was imported from {source.system}"
    return f"not recorded: {where}{imported} without {missing}"


def _imported_gap(event: events.Event, system: str, where: str) -> str:
    """Return why the chain ends at an imported entry, if its kind shows it; else ""."""
    if isinstance(event, events.UserMessage) and event.author_kind == "agent":
        to = ", ".join(event.to) or "everybody"
        gap = f"{where} is what {event.author} gave {to}"
        return f"{gap}; the log of {system} does not tell by which call" if event.author else ""
    if isinstance(event, events.UserMessage) and event.author_kind == "system":
        return f"{where} is a note that {system} put in; it names no cause"
    if isinstance(event, events.AssistantMessage) and event.purpose == "summary":
        spans = spans_in_words(event.covers) or "what stood before it"
        return f"{where} is a summary of {spans}, which {system} asked for; it names no cause"
    return ""


class Reference(NamedTuple):
    """The entry at `position` names the positions `first` to `last` by its field `field`.

    A result that names its call only by the provider's id (`call_id`) belongs to the nearest unanswered call
    of that id.
    """

    position: int
    first: int
    last: int
    field: str


def references(entries: Iterable[Entry]) -> Iterator[Reference]:
    """Yield every reference, in the log's order."""
    log = list(entries)
    pairing = pair(log)
    places = {entry.id: entry.position for entry in log}
    for entry in log:
        for first, last, field in _references_in(entry, pairing, places):
            yield Reference(entry.position, first, last, field)


def _references_in(
    entry: Entry, pairing: ToolCallIndex, places: Mapping[str, int]
) -> Iterator[tuple[int, int, str]]:
    event = entry.event
    match event:
        case events.UserMessage(control=control):
            yield from _one(event.cause, "cause")
            yield from _one(event.replaces, "replaces")
            if control is not None and control.call is not None:
                yield from _one(places.get(control.call.entry), "control.call")
        case events.AssistantMessage() | events.LlmError():
            yield from _one(event.cause, "cause")
            yield from _one(event.receipt.view if event.receipt else None, "receipt.view")
            if isinstance(event, events.AssistantMessage):
                yield from _one(event.replaces, "replaces")
                yield from ((span.first, span.last, "covers") for span in event.covers)
        case events.ToolResult():
            call = pairing.calls.get(entry.position)
            yield from _one(call and call.position, "call_id" if event.call is None else "call")
        case events.ModeSwitch(hides=hides, context_from=start):
            if isinstance(start, int) and start > 1:
                yield 1, start - 1, "context_from"
            if isinstance(hides, tuple):
                yield from ((span.first, span.last, "hides") for span in hides)
        case _:
            pass


def _one(position: int | None, field: str) -> Iterator[tuple[int, int, str]]:
    if position:
        yield position, position, field
