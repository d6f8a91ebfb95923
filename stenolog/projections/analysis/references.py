"""Which entry names which other one, and by which of its fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.projections.tool_pairs import ToolCallIndex, pair


class Reference(NamedTuple):
    """The entry at `position` names the positions `first` to `last` by its field `field`.

    A result that names its call only by the provider's id does so by `call_id`: it belongs to the nearest
    unanswered call of that id.
    """

    position: int
    first: int
    last: int
    field: str


def references(entries: Iterable[Entry]) -> Iterator[Reference]:
    """Every reference in the log, in its order."""
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
        case UserMessage(control=control):
            yield from _one(event.cause, "cause")
            yield from _one(event.replaces, "replaces")
            if control is not None and control.call is not None:
                yield from _one(places.get(control.call.entry), "control.call")
        case AssistantMessage() | LlmError():
            yield from _one(event.cause, "cause")
            yield from _one(event.receipt.view if event.receipt else None, "receipt.view")
            if isinstance(event, AssistantMessage):
                yield from _one(event.replaces, "replaces")
                yield from ((span.first, span.last, "covers") for span in event.covers)
        case ToolResult():
            call = pairing.calls.get(entry.position)
            yield from _one(call and call.position, "call_id" if event.call is None else "call")
        case ModeSwitch(hides=hides, context_from=start):
            if isinstance(start, int) and start > 1:
                yield 1, start - 1, "context_from"
            if isinstance(hides, tuple):
                yield from ((span.first, span.last, "hides") for span in hides)
        case _:
            pass


def _one(position: int | None, field: str) -> Iterator[tuple[int, int, str]]:
    if position:
        yield position, position, field
