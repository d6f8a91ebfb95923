"""The request as it might be, without some entries, with others edited, in another mode or policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.errors import InvalidEventError, PositionNotFoundError
from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.parts import TextPart
from stenolog.domain.policy import PolicyLike
from stenolog.domain.settings import Settings, settings
from stenolog.domain.values import PositionRange
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.sizes import COUNTERS
from stenolog.projections.messages.sizes import Counter as TokenCounter
from stenolog.projections.requests import LaneId, Request, asked_api, build

from .cache.difference import RequestDiff, diff

NO_EDITS: Mapping[int, str] = {}


class WhatIf(NamedTuple):
    """The real request, the other one, and the difference."""

    real: Request
    other: Request
    difference: RequestDiff

    @property
    def same(self) -> bool:
        """True if both requests have the same body and are equally ready."""
        return self.real.bytes == self.other.bytes and self.real.ready == self.other.ready


def whatif(
    entries: Iterable[Entry],
    agent: str,
    *,
    without: Sequence[PositionRange] = (),
    edits: Mapping[int, str] = NO_EDITS,
    mode: str | None = None,
    policy: PolicyLike = None,
    task: str = "",
    api: str | None = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, TokenCounter] = COUNTERS,
) -> WhatIf:
    """Return the lane's request after these entries beside the one that it would be otherwise.

    `without` hides entries, and `mode` sets the agent's mode, as a mode switch at the end would. `edits` are
    other texts of entries, from the beginning. `policy` None is the card's. Raises `PositionNotFoundError`
    for a position that is not in the log, `InvalidEventError` for a mode switch among them.
    """
    log = list(entries)
    chosen = asked_api(api, log, LaneId(agent, task))
    given: dict[str, Any] = {"task": task, "api": chosen, "blobs": blobs, "counters": counters}
    real = build(log, agent, **given)
    changed = with_edits(log, edits, len(log))
    switch = switch_for(log[-1], settings(log), agent, without, mode) if log else None
    for span in without:
        check_hidden(log[span.first - 1 : span.last])
    other = build([*changed, *([switch] if switch else [])], agent, policy=policy, **given)
    return WhatIf(real, replace(other, at=real.at), diff(real, other))


def switch_for(
    last: Entry, now: Settings, agent: str, without: Sequence[PositionRange], mode: str | None
) -> Entry | None:
    """Return a mode switch after the last entry that hides the spans and sets the mode; None for neither.

    `now` are the settings at the last entry. Raises `PositionNotFoundError`.
    """
    fields: dict[str, Any] = {}
    for span in without:
        where = f"{last.conversation!r}: expected"
        if span.last > last.position:
            raise PositionNotFoundError(f"{where} a position from 1 to {last.position}, found {span.last}")
        if span.first > span.last:
            raise PositionNotFoundError(f"{where} the lower position first, found {span.first}-{span.last}")
    if without:
        fields["hides"] = (*now.hides, *without)
    if mode is not None:
        fields |= {"mode": mode, "agents": (agent,)}
    if not fields:
        return None
    return Entry(last.conversation, last.position + 1, "what-if", last.time, "", ModeSwitch(**fields))


def unwritten(entries: Iterable[Entry], span: PositionRange) -> Iterator[Entry]:
    """Yield a log as if the entries of a span had said and set nothing."""
    for entry in entries:
        yield entry._replace(event=ModeSwitch()) if span.first <= entry.position <= span.last else entry


def check_hidden(entries: Iterable[Entry]) -> None:
    """Raise `InvalidEventError` if a request shows no entry of a span to be hidden."""
    first = 0
    for entry in entries:
        if not isinstance(entry.event, ModeSwitch):
            return
        first = first or entry.position
    reason = "it is a mode switch, and what it sets would stay in force"
    raise InvalidEventError(f"expected something that a request shows, found {first}: {reason}")


def with_edits(entries: Iterable[Entry], edits: Mapping[int, str], head: int) -> Iterator[Entry]:
    """Yield the entries, with other texts at some positions. Raises `PositionNotFoundError` beyond the head.

    A text replaces all texts of an entry; its calls, thoughts and pictures stay. Raises `InvalidEventError`
    for an entry that says nothing.
    """
    if wrong := [at for at in edits if not 1 <= at <= head]:
        raise PositionNotFoundError(f"expected a position from 1 to {head}, found {wrong[0]}")
    for entry in entries:
        yield (
            entry._replace(event=_edited(entry, edits[entry.position])) if entry.position in edits else entry
        )


def _edited(entry: Entry, text: str) -> Event:
    event = entry.event
    if not isinstance(event, UserMessage | AssistantMessage | ToolResult | LlmError):
        raise InvalidEventError(
            f"expected an entry with words to edit, found {event.kind} at {entry.position}"
        )
    rest = [part for part in event.parts if not isinstance(part, TextPart)]
    before = next((i for i, part in enumerate(event.parts) if isinstance(part, TextPart)), 0)
    texts = [TextPart(text=text)] if text else []
    parts: Any = (*rest[:before], *texts, *rest[before:])
    # The whole of a large result, which stands in a blob, would be read in the place of the edit.
    return (
        replace(event, parts=parts, blob="") if isinstance(event, ToolResult) else replace(event, parts=parts)
    )
