"""Visibility of entries, for `recall` and all that returns stored words."""

from __future__ import annotations

from collections.abc import Callable

from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.domain.entry import Entry
from stenolog.domain.errors import StenologError
from stenolog.domain.policy import FullHistory, Transforms, policy
from stenolog.projections.fold import fold

from . import folds
from .requests import building

UNEDITED: tuple[int, ...] = ()


@fold(initial=UNEDITED, state=tuple[int, ...], name="edited-away")
def EDITED(known: tuple[int, ...], entry: Entry) -> tuple[int, ...]:
    """Collect the positions whose words a later message replaces."""
    replaced = getattr(entry.event, "replaces", None)
    return (*known, replaced) if replaced else known


def visible_to(conversation: StreamHandle, agent: str, task: str = "") -> Callable[[Entry], bool]:
    """Return whether a lane may see an entry; never if the conversation cannot be read.

    It sees what its whole history would send, and what summaries hide. It does not see what is erased,
    hidden, reset, edited away, for others, or another lane's memory or summary; nor what its card's
    transforms omit or reword.
    """
    try:
        card = folds.fold_at(conversation, folds.SETTINGS).card_of(agent)
        own = policy(card.policy).rewrites or Transforms()
        request = building.request(conversation, agent, task, None, None, FullHistory() | own)
        seen = {at for part in request.parts if part.rule not in own.names for at in part.positions}
        # No transform has seen what summaries cover.
        left_out = () if own.names else request.omissions
        covered = [(left.first, left.last) for left in left_out if left.rule == "covered"]
        edited: tuple[int, ...] = folds.fold_at(conversation, folds.persistent(EDITED))
    except StenologError:
        return lambda entry: False

    def may_see(entry: Entry) -> bool:
        at = entry.position
        return at not in edited and (at in seen or any(first <= at <= last for first, last in covered))

    return may_see
