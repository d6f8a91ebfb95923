"""Moments of a stored conversation: one request with its entries and blobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stenolog.adapters.conversation.queries import folds
from stenolog.adapters.store.reading import reader
from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.domain.entry import Entry
from stenolog.domain.errors import AgentNotFoundError, InvalidEventError
from stenolog.domain.events import ModeSwitch
from stenolog.domain.policy import PolicyLike
from stenolog.domain.values import Receipt
from stenolog.projections.formats import FORMATS
from stenolog.projections.moments.moment import Moment, choices, moment_of, shown_in
from stenolog.projections.requests import LaneId, Request
from stenolog.projections.requests.request import known_policy
from stenolog.projections.requests.sendable import NOTHING_SAID, no_agent

from . import building
from .lanes import api_of
from .sent_forms import patches_of, receipt_behind
from .token_counters import COUNTERS


def read_moment(
    conversation: StreamHandle,
    lane: LaneId,
    at: int,
    *,
    api: str | None = None,
    policy: PolicyLike = None,
) -> Moment:
    """Return a lane's moment at a position, by default on the API and policy it was sent by.

    Raises `PositionNotFoundError`, `AgentNotFoundError` if the agent has not joined yet, `InvalidEventError`
    if nothing was said to it, and as `Conversation.request`.
    """
    conversation.checked(at, least=1)
    _check_takes_part(conversation, lane, at)
    receipt = receipt_behind(conversation, lane, at)
    chosen = known_policy(receipt) if policy is None and receipt is not None else policy
    request = building.request(
        conversation, *lane, at, api or _api_of(conversation, lane, receipt), chosen, COUNTERS
    )
    if request.reason == NOTHING_SAID:
        raise InvalidEventError(
            f"{_where(conversation, at)}: {lane.address} has no request yet: {NOTHING_SAID}"
        )
    return moment_of(
        request,
        choices(request, _beginning(conversation, request), lambda: conversation.entries(at=at)),
        conversation=conversation.name,
        receipt=receipt,
        patches=patches_of(conversation),
        blobs=conversation.log.blobs,
        counters=COUNTERS,
    )


def _check_takes_part(conversation: StreamHandle, lane: LaneId, at: int) -> None:
    state = folds.fold_at(conversation, folds.STATE, at)
    settings = folds.fold_at(conversation, folds.SETTINGS, at)
    known = dict.fromkeys((*settings.cards, *state.members, *(each.agent for each in state.lanes.values())))
    if lane.agent not in known:
        raise AgentNotFoundError(f"{_where(conversation, at)}: {no_agent(lane.agent, [*known])}")


def _where(conversation: StreamHandle, at: int) -> str:
    return f"{conversation.name!r} at {at}"


def _api_of(conversation: StreamHandle, lane: LaneId, receipt: Receipt | None) -> str:
    name = receipt.api.partition("@")[0] if receipt is not None else ""
    return name if name in FORMATS else api_of(conversation, lane)


def _beginning(conversation: StreamHandle, request: Request) -> Iterator[Entry]:
    first = min(shown_in(request), default=request.at)
    log, stream = conversation.log, conversation.stream
    switches: Iterable[object] = reader.of_kinds(log.recorder, stream, [ModeSwitch], 0, first - 1)
    yield from (entry for entry in switches if isinstance(entry, Entry))
    yield from conversation.entries(first - 1, request.at)
