"""Compactions as data: those of a lane, and what one of them took out of its requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stenolog.projections.analysis.compaction import (
    CompactedRequest,
    Compaction,
    compacted,
    compactions,
)

from .asked_request import request_reference
from .lanes import lane, means, own_api

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation


def compactions_of(conversation: Conversation, agent: str) -> list[Compaction]:
    """Return the compactions that concern an agent, in order."""
    return list(compactions(conversation.entries(), lane(agent)))


def chosen_compaction(found: list[Compaction], at: int) -> int:
    """Return the position of the last compaction up to `at`, else of the first one; 0 without any."""
    before = [one.position for one in found if one.position <= at]
    return before[-1] if before else found[0].position if found else 0


def compacted_request(
    conversation: Conversation, agent: str, position: int, *, restore: int | None, api: str | None
) -> CompactedRequest:
    """Return an agent's request before and after a compaction. Raises as `compacted`."""
    return compacted(
        conversation.entries(at=position),
        lane(agent),
        position,
        restore=restore,
        api=api or own_api(conversation, agent),
        **means(conversation),
    )


def compaction_data(
    conversation: Conversation, agent: str, found: list[Compaction], chosen: CompactedRequest | None
) -> dict[str, Any]:
    """Return the compactions of an agent, and one of them in full."""
    shown: dict[str, Any] = {
        "conversation": conversation.name,
        "agent": agent,
        "compactions": [one._replace(text=one.text[:200])._asdict() for one in found],
        "chosen": None,
    }
    if chosen is not None:
        back = chosen.restored
        restored = back and {"positions": back.positions, "tokens": back.tokens, "bytes": back.bytes}
        shown["chosen"] = {
            **chosen.compaction._asdict(),
            "before": {**request_reference(chosen.before), "bytes": len(chosen.before.bytes)},
            "after": {**request_reference(chosen.after), "bytes": len(chosen.after.bytes)},
            **{name: getattr(chosen, name) for name in SUMS},
            "runs": chosen.runs,
            "restored": restored,
        }
    return shown


SUMS = ("tokens_before", "tokens_after", "beside_before", "beside_after")
