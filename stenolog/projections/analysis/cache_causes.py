"""Causes of a miss of the prompt cache: the kind, the place, and the entry or the setting that did it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry
from stenolog.domain.events import UNCHANGED, AssistantMessage, ModeSwitch
from stenolog.projections.requests import LaneId, Request, RequestPart

from .prompt_changes import PromptChange

Kind: TypeAlias = Literal[
    "",
    "cold start",
    "model",
    "tools",
    "system",
    "setting",
    "history",
    "compaction",
    "expired",
    "no mark",
    "too short",
    "too far",
    "not read",
    "not in this log",
]
CLIENT = "client"
"""The source of what only the client's own form of a request has."""


class Cause(NamedTuple):
    """End of the beginning that a request has in common with the one before, and its cause.

    `how` says what became of the block at `pointer`; `offset` is the character in the text there, -1 for
    none. `entry` is the position of the entry that did it, 0 where it is a constant of the client's, and
    `was` are the positions of what stood there before. `words` say what is other.
    """

    kind: Kind
    how: str = ""
    pointer: str = ""
    offset: int = -1
    entry: int = 0
    was: tuple[int, ...] = ()
    words: str = ""


NO_CAUSE = Cause("")


def model_cause(before: int, view: int, cards: Sequence[tuple[int, AgentCard]]) -> Cause:
    """Return the cause of a lane's first call to another model: `before` and `view` are their positions."""
    old, new = _card_at(cards, before), _card_at(cards, view)
    names = [card.model if card else "" for card in (old, new)]
    position = _switch(cards, before, view, lambda card: card.model)
    return Cause("model", "changed", "/model", entry=position, words=" → ".join(filter(None, names)))


def change_cause(
    change: PromptChange,
    lane: LaneId,
    before: Request,
    after: Request,
    between: Sequence[Entry],
    cards: Sequence[tuple[int, AgentCard]],
) -> Cause:
    """Return the cause of a change. `between` are the entries since the request before."""
    given = (change.how, change.pointer, change.offset)
    if change.section != "messages":
        entry = _setting(change, before, after, between, cards)
        return Cause(change.section, *given, entry, words=change.words)
    old = _positions(before, change, is_new=False)
    new = _positions(after, change, is_new=True)
    summary = next((entry.position for entry in between if is_summary(entry, lane)), 0)
    if summary:
        return Cause("compaction", *given, summary, old, change.words)
    fresh = [position for position in new if position > before.at]
    if change.how in ("added", "changed", "rewound", "moved") and fresh:
        return Cause("history", *given, max(fresh), old, change.words)
    if change.how in ("cleared", "thinking removed", "changed") and (old or new):
        # The entry is the same one, in another form.
        there = new if change.how != "thinking removed" else old or new
        return Cause("history", *given, max(there or old), old, change.words)
    return Cause("history", *given, hiding(between) or max(fresh, default=0), old, change.words)


def is_summary(entry: Entry, lane: LaneId) -> bool:
    """Return whether an entry is a summary of the lane's own."""
    event = entry.event
    return isinstance(event, AssistantMessage) and lane.owns(event) and bool(event.covers)


def _setting(
    change: PromptChange,
    before: Request,
    after: Request,
    between: Iterable[Entry],
    cards: Sequence[tuple[int, AgentCard]],
) -> int:
    """Return the entry that changed a setting; 0 where the client changed it without one."""
    key = change.pointer.split("/")[1]

    def looked_at(card: AgentCard) -> Any:
        match change.section:
            case "tools":
                return card.tools
            case "system":
                return card.persona
            case "model":
                return card.model
            case _:
                return card.parameters.get(key)

    if position := _switch(cards, before.at, after.at, looked_at):
        return position
    if after.patch is not None:
        return 0
    # What stenolog says around a conversation comes from other settings too.
    switches = [entry.position for entry in between if isinstance(entry.event, ModeSwitch)]
    return max(switches, default=0)


def _switch(cards: Sequence[tuple[int, AgentCard]], before: int, view: int, looked_at: Any) -> int:
    """Return the last card between two positions that says something else than the one before it."""
    known = _card_at(cards, before)
    for position, card in reversed([each for each in cards if before < each[0] <= view]):
        earlier = _card_at(cards, position - 1) or known
        if earlier is None or looked_at(earlier) != looked_at(card):
            return position
    return 0


def _card_at(cards: Sequence[tuple[int, AgentCard]], at: int) -> AgentCard | None:
    return next((card for position, card in reversed(cards) if position <= at), None)


def hiding(between: Sequence[Entry]) -> int:
    """Return the last entry that took something out of the context; 0 for none."""
    for entry in reversed(between):
        event = entry.event
        if isinstance(event, ModeSwitch) and (
            event.hides is not UNCHANGED or event.context_from is not UNCHANGED
        ):
            return entry.position
    return 0


def _positions(request: Request, change: PromptChange, *, is_new: bool) -> tuple[int, ...]:
    """Return the positions of what stands at a change in one of the requests."""
    block = change.new if is_new else change.old
    if block is None or block.message < 0:
        return ()
    parts = [part for part in request.parts if part.message == block.message]
    step = block.pointer.split("/")[3:]
    nth = int(step[1]) if len(step) > 1 and step[1].isdecimal() else 0
    return _of_block(parts, nth, _number(request, block.message))


def _of_block(parts: Sequence[RequestPart], nth: int, number: int) -> tuple[int, ...]:
    """Return the positions of a block of a message; of all its parts, where they are not one each."""
    chosen = parts[nth : nth + 1] if len(parts) == number else parts
    return tuple(dict.fromkeys(position for part in chosen for position in part.positions))


def _number(request: Request, message: int) -> int:
    """Return the number of blocks of a message."""
    found = request.body[request.messages_key][message]
    inner = next((found[key] for key in ("content", "parts") if key in found), None) if found else None
    return len(inner) if isinstance(inner, list) else 1
