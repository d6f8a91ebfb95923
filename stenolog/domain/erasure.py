"""Entries whose words are gone (erased, damaged, lost), and what an erasure leaves of an entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from .base.model import construct
from .card import AgentCard
from .events import UNCHANGED, Event, ModeSwitch, Unknown, UserMessage
from .policy import HISTORIES, RULES, History
from .values import Tool, WorkflowRun

ERASED = "erased"
"""The topic that an entry is read with once its payload was erased: an `Unknown` that may be passed over."""
WITHHELD = "withheld"
"""The topic that an entry is read with whose words its exporter withheld; in all else as an erased one."""
WORDLESS: Final = (ERASED, WITHHELD)
DAMAGED = "damaged"
"""The topic of an entry that cannot be read, or is not what was written; see `Damaged`."""
LOST = "lost@1"
"""The topic of a mark that a salvage writes in the place of a lost entry: it may be passed over."""


SWITCH: Final = "mode_switch@1"
"""The topic of entries that leave their effects when they are erased: later entries rest on them."""
EFFECTS: Final = (
    *("run", "node", "in_context", "agents", "mode", "joins", "leaves", "scope", "handoff", "turns"),
    *("context_from", "hides", "parent", "fork"),
)
"""The fields that an erased mode switch keeps whole."""
MARK: Mapping[str, Any] = MappingProxyType({"stenolog": {"erased": True}})
"""The `meta` of a mode switch whose words were erased."""


def effects_of(switch: ModeSwitch) -> ModeSwitch:
    """Return what an erasure leaves of a mode switch: its effects on members, turns and context.

    Of cards it leaves the models, the names and approvals of tools, and policies without their words; of a
    workflow run, its ids.
    """
    cards = {name: None if card is None else _without_words(card) for name, card in switch.cards.items()}
    run = switch.active_run
    return construct(
        ModeSwitch,
        **{name: getattr(switch, name) for name in EFFECTS},
        cards=cards,
        title=switch.title if switch.title is UNCHANGED else None,
        active_run=construct(WorkflowRun, id=run.id, node=run.node) if isinstance(run, WorkflowRun) else run,
        meta=dict(MARK),
    )


def _without_words(card: AgentCard) -> AgentCard:
    rules = {
        slot: dict(_effects_of_rule(slot, rule))
        for slot, rule in card.policy.items()
        if isinstance(rule, dict)
    }
    tools = card.tools and tuple(
        construct(Tool, name=one.name, approval=one.approval, ends_run=one.ends_run) for one in card.tools
    )
    return construct(
        AgentCard,
        model=card.model,
        provider=card.provider,
        tools=tools,
        policy=rules,
        context_limit=card.context_limit,
        patched=card.patched,
    )


def _effects_of_rule(slot: str, rule: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    registered = HISTORIES.get(rule.get("kind", "")) if slot == History.slot else RULES.get(slot)
    for key, value in rule.items():
        # Any text of a rule that is not loaded here may be words.
        if key not in registered.words if registered else key == "kind" or isinstance(value, int | float):
            yield key, value


def is_effects(event: Event) -> bool:
    """Return whether the event is a mode switch whose words were erased."""
    return isinstance(event, ModeSwitch) and event.meta == MARK


def is_erased(event: Event) -> bool:
    """Return whether the event is what is left of an erased one, or of one that came withheld."""
    return isinstance(event, Unknown) and event.topic in WORDLESS


META_KEY = "erasure"
"""The key in a message's `meta`, below "stenolog", that makes it the entry of an erasure."""


ORIGINAL = "stenolog.original"
"""The key in `meta` of mode switches that name blobs with the bytes of a foreign file or its lines."""
CHECKPOINTED = "langgraph"
"""The key in `meta` of entries whose words LangGraph's checkpoints hold too, in other entries."""


def is_checkpointed(event: Event) -> bool:
    """Return whether checkpoints hold the words of the event too."""
    return isinstance(getattr(event, "meta", {}).get(CHECKPOINTED), dict)


class Erasure(NamedTuple):
    """An erasure, as the log records it: positions, author and reason."""

    positions: tuple[int, ...]
    by: str
    reason: str


RECEIPT = b'"stenolog":{"erasure":{"positions":'
"""The words in the payload of an erasure's message, and of hardly any other."""
RECEIPT_BYTES = 65_536
"""An erasure's message is shorter, so that a longer payload need not be read."""


def is_receipt(payload: bytes) -> bool:
    """Return whether a payload is that of an erasure's message."""
    return len(payload) < RECEIPT_BYTES and RECEIPT in payload


def erasure_message(positions: Sequence[int], *, by: str, reason: str, together: str = "") -> UserMessage:
    """Return the message that records an erasure in the log; no model is sent it.

    `together` is the same in the messages of one erasure in several conversations.
    """
    which = ", ".join(map(str, positions))
    what = f"Entr{'y' if len(positions) == 1 else 'ies'} {which} erased"
    record: dict[str, Any] = {META_KEY: {"positions": list(positions), "by": by, "reason": reason}}
    if together:
        record[META_KEY]["together"] = together
    return UserMessage(
        text=f"{what}: {reason}" if reason else what,
        author=by,
        author_kind="system",
        in_context=False,
        meta={"stenolog": record},
    )


def erasure_of(event: Event) -> Erasure | None:
    """Return the erasure that a message records; None for any other event."""
    # A person or an agent may write the same `meta`, which must not pass for an erasure.
    if not isinstance(event, UserMessage) or event.author_kind != "system":
        return None
    ours = event.meta.get("stenolog")
    record = ours.get(META_KEY) if isinstance(ours, dict) else None
    which = record.get("positions") if isinstance(record, dict) else None
    if not isinstance(record, dict) or not isinstance(which, list):
        return None
    positions = tuple(at for at in which if isinstance(at, int))
    return Erasure(positions, str(record.get("by", "")), str(record.get("reason", "")))


def is_gone(event: Event) -> bool:
    """Return whether an entry was erased or withheld, is damaged, or was lost in a salvage."""
    return is_effects(event) or (isinstance(event, Unknown) and event.topic in (*WORDLESS, DAMAGED, LOST))
