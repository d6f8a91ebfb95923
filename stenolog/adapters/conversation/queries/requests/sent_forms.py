"""Requests in the form in which another program sent them, according to receipts."""

from __future__ import annotations

from itertools import islice
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.domain.errors import InvalidPolicyError, StoredDataError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.values import Receipt
from stenolog.projections.moments.moment import receipt_of
from stenolog.projections.requests import LaneId, Request
from stenolog.projections.requests.as_sent import Patches, as_sent
from stenolog.projections.requests.request import PATCH, sent_under

from . import building

NEAR = 1000
"""The answer to a request is looked for among so many entries after it."""
_patches: WeakKeyDictionary[Any, dict[object, Patches]] = WeakKeyDictionary()
_turn = Lock()


def patches_of(conversation: StreamHandle) -> Patches:
    """Return the patches in receipts, each read when needed."""

    def receipt_at(position: int) -> Receipt | None:
        for entry in conversation.entries(position - 1, position):
            if isinstance(entry.event, AssistantMessage | LlmError):
                return entry.event.receipt
        return None

    if conversation.key is None:
        return Patches(receipt_at)
    with _turn:
        return _patches.setdefault(conversation.log, {}).setdefault(conversation.key, Patches(receipt_at))


def receipt_behind(conversation: StreamHandle, lane: LaneId, at: int) -> Receipt | None:
    """Return the receipt of the lane's call at a position; None if it made none."""
    return receipt_of(islice(conversation.entries(after=at), NEAR), lane, at)


def in_sent_form(conversation: StreamHandle, request: Request, receipt: Receipt) -> Request:
    """Return a request as a receipt says it was sent. Raises `StoredDataError`, as `as_sent`."""
    return as_sent(request, receipt, patches_of(conversation), conversation.log.blobs)


def sent_form(conversation: StreamHandle, lane: LaneId, at: int, api: str | None = None) -> Request | None:
    """Return the lane's request at a position as another program sent it.

    None if none was sent there, or on another API, or if the receipt cannot give it any more.
    """
    receipt = receipt_behind(conversation, lane, at)
    if receipt is None or PATCH not in receipt.plan:
        return None
    name = receipt.api.partition("@")[0]
    if api is not None and api != name:
        return None
    try:
        built = building.request(conversation, *lane, at, name, sent_under(receipt))
        return in_sent_form(conversation, built, receipt)
    except (StoredDataError, InvalidPolicyError):
        return None
