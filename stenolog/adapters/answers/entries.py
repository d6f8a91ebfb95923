"""Entries: where they went, and what led to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from stenolog.domain.entry import Entry
from stenolog.domain.policy import PolicyLike
from stenolog.projections.analysis.explain import Explanation, explain

from .lanes import means

if TYPE_CHECKING:
    from stenolog.adapters.log import Conversation


def explained(
    conversation: Conversation,
    entries: Iterable[Entry],
    position: int,
    *,
    api: str | None = None,
    policy: PolicyLike = None,
) -> Explanation:
    """Return the history of an entry, up to the end of the entries. Raises as `explain`."""
    return explain(entries, position, api=api, policy=policy, **means(conversation))


def explanation_data(conversation: Conversation, at: int, told: Explanation) -> dict[str, Any]:
    """Return the history of an entry up to position `at`."""
    return {"conversation": conversation.name, "at": at, **told._asdict()}
