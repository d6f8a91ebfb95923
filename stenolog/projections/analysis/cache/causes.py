"""Causes of a miss of the prompt cache: kind, place, and the entry or setting that did it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry
from stenolog.domain.events import UNCHANGED, AssistantMessage, ModeSwitch, UserMessage
from stenolog.projections.formats.caching import Block, Section
from stenolog.projections.messages.explanation import omission_rule
from stenolog.projections.requests import LaneId, Request

Cards: TypeAlias = Sequence[tuple[int, AgentCard]]
"""Cards of an agent with their positions."""
How: TypeAlias = Literal["added", "removed", "moved", "changed", "cleared", "thinking removed", "rewound"]
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
    "earlier call",
    "cause not known from this log",
]


class FirstChange(NamedTuple):
    """The first change between two prompts.

    `pointer` leads to it in the later body, or in the earlier one if it went from an end; `offset` is the
    character in the text there, -1 if no text changed. `old` and `new` are the blocks there; `words` describe
    it.
    """

    section: Section
    how: How
    pointer: str
    offset: int
    words: str
    old: Block | None
    new: Block | None


class Cause(NamedTuple):
    """End of the beginning that a request shares with the one before, and its cause.

    `how` says what became of the block at `pointer`; `offset` is the character in the text there, -1 for
    none. `entry` is the position of the entry that did it, 0 if none, or if the client did it. `was` are the
    positions of what was there before, `rule` is the one that left it out, or that added something there.
    `words` say what differs.
    """

    kind: Kind
    how: str = ""
    pointer: str = ""
    offset: int = -1
    entry: int = 0
    was: tuple[int, ...] = ()
    words: str = ""
    rule: str = ""


NO_CAUSE = Cause("")


def model_cause(before: int, view: int, cards: Cards) -> Cause:
    """Return the cause of a lane's first call to another model: `before` and `view` are their positions."""
    old, new = card_at(cards, before), card_at(cards, view)
    position = _switch(old, [each for each in cards if before < each[0] <= view], lambda card: card.model)
    names = [card.model if card else "" for card in (old, new)]
    return Cause("model", "changed", "/model", entry=position, words=" → ".join(filter(None, names)))


def cause_of(
    change: FirstChange,
    requests: tuple[Request, Request],
    prompts: tuple[Sequence[Block], Sequence[Block]],
    between: Sequence[Entry],
    card: AgentCard | None,
) -> Cause:
    """Return the cause of a change between two requests, of the prompts with these blocks.

    `between` are the entries since the earlier request, `card` the agent's there.
    """
    before, after = requests
    kind: Kind = "history" if change.section == "messages" else change.section
    cause = Cause(kind, change.how, change.pointer, change.offset, words=change.words)
    lane = LaneId(after.agent, after.task)
    if change.section != "messages":
        return cause._replace(entry=_setting(change, after, between, card, cards_of(between, lane)))
    old = _positions(before, prompts[0], change.old)
    new = _positions(after, prompts[1], change.new)
    since = between[0].position - 1 if between else before.at
    fresh = max((position for position in new if position > since), default=0)
    rule = _rule(after, old, new)
    cause = cause._replace(was=old, rule=rule)
    if summary := next((entry.position for entry in between if is_summary(entry, lane)), 0):
        return cause._replace(kind="compaction", entry=summary)
    if fresh and change.how in ("added", "changed", "rewound", "moved"):
        return cause._replace(entry=fresh)
    if change.how in ("cleared", "thinking removed", "changed") and (old or new):
        # The entry is the same one, in another form.
        section = new if change.how != "thinking removed" else old or new
        return cause._replace(entry=max(section or old))
    return cause._replace(entry=_by_rule(rule, old, between) or hiding(between) or fresh)


def cards_of(entries: Iterable[Entry], lane: LaneId) -> Cards:
    """Return the agent's cards, with their positions."""
    return [
        (entry.position, card)
        for entry in entries
        if isinstance(entry.event, ModeSwitch) and (card := entry.event.cards.get(lane.agent)) is not None
    ]


def card_at(cards: Cards, at: int) -> AgentCard | None:
    """Return the last card up to a position."""
    return next((card for position, card in reversed(cards) if position <= at), None)


def _rule(after: Request, old: tuple[int, ...], new: tuple[int, ...]) -> str:
    """Return the rule that left out what was there, else that of what is there now."""
    kept = {position for part in after.parts for position in part.positions}
    for where in old:
        if where not in kept:
            return omission_rule(after.omissions, where)
    return next((part.rule for part in after.parts if part.positions == new), "")


def _by_rule(rule: str, was: tuple[int, ...], between: Sequence[Entry]) -> int:
    """Return the last entry by which a rule leaves something out; 0 if unknown."""
    for entry in reversed(between):
        match entry.event:
            case UserMessage(replaces=old) | AssistantMessage(replaces=old) if rule == "replaced":
                if old in was:
                    return entry.position
            case AssistantMessage(covers=spans) if rule == "covered":
                if any(where in span for where in was for span in spans):
                    return entry.position
            case AssistantMessage() if rule in ("answered-since", "retried", "other-lanes-error"):
                return entry.position
            case _:
                pass
    return 0


def is_summary(entry: Entry, lane: LaneId) -> bool:
    """Return whether an entry is a summary of the lane's own."""
    event = entry.event
    return isinstance(event, AssistantMessage) and lane.owns(event) and bool(event.covers)


def _setting(
    change: FirstChange, after: Request, between: Iterable[Entry], card: AgentCard | None, cards: Cards
) -> int:
    """Return the entry that changed a setting; 0 if the client did."""
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

    if position := _switch(card, cards, looked_at):
        return position
    if after.patch is not None:
        return 0
    # What stenolog says around a conversation comes from other settings too.
    switches = [entry.position for entry in between if isinstance(entry.event, ModeSwitch)]
    return max(switches, default=0)


def _switch(card: AgentCard | None, cards: Cards, looked_at: Callable[[AgentCard], Any]) -> int:
    pairs = zip([card, *(each for _, each in cards)], cards, strict=False)
    found = [at for old, (at, new) in pairs if old is None or looked_at(old) != looked_at(new)]
    return max(found, default=0)


def hiding(between: Sequence[Entry]) -> int:
    """Return the last entry that took something out of the context; 0 for none."""
    for entry in reversed(between):
        event = entry.event
        if isinstance(event, ModeSwitch) and (
            event.hides is not UNCHANGED or event.context_from is not UNCHANGED
        ):
            return entry.position
    return 0


def _positions(request: Request, blocks: Sequence[Block], block: Block | None) -> tuple[int, ...]:
    if block is None or block.message < 0:
        return ()
    parts = [part for part in request.parts if part.message == block.message]
    beside = [each.pointer for each in blocks if each.message == block.message]
    nth = beside.index(block.pointer)
    chosen = parts[nth : nth + 1] if len(parts) == len(beside) else parts
    return tuple(dict.fromkeys(position for part in chosen for position in part.positions))
