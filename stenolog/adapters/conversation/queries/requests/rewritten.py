"""A stored conversation's request rewritten: entries hidden or edited, another mode.

Nothing is written. The real request's window continues from where the logs would differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from stenolog.adapters.conversation.queries import folds
from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.domain.policy import PolicyLike
from stenolog.domain.values import PositionRange
from stenolog.projections.analysis.whatif import check_hidden, switch_for, with_edits
from stenolog.projections.requests import LaneId, Request
from stenolog.projections.requests.choosing import choose
from stenolog.projections.requests.incremental.series import from_window
from stenolog.projections.requests.incremental.window import Window

from .building import branch_at
from .token_counters import COUNTERS


def rewritten_request(
    conversation: StreamHandle,
    agent: str,
    task: str,
    at: int,
    api: str,
    policy: PolicyLike,
    without: Sequence[PositionRange],
    mode: str | None,
    edits: Mapping[int, str],
) -> Request:
    """Return `whatif`'s other request, using cached windows. Raises as it does."""
    blobs = conversation.log.blobs
    [last] = conversation.entries(at - 1, at)
    now = folds.fold_at(conversation, folds.SETTINGS, at)
    switch = switch_for(last, now, agent, without, mode)
    for span in without:
        check_hidden(conversation.entries(span.first - 1, span.last))
    lane = LaneId(agent, task)
    # An edit changes what every later cut saw, so all from the first one on is taken in anew.
    begin = min(edits, default=at + 1) - 1
    chosen = choose(now, agent, policy, COUNTERS)[0] if edits else policy
    fresh = with_edits(conversation.entries(max(begin, 0), at), edits, at)
    if begin > 0:
        window = branch_at(conversation, lane, begin, chosen)
    else:
        resolved, counter = choose(now, agent, policy, COUNTERS)
        window = Window(lane, resolved, counter, blobs=blobs)
    for entry in (*fresh, *([switch] if switch else [])):
        window.take(entry)
    return replace(from_window(window, api, blobs, explained=True), at=at)
