"""The claims of a log for a person: which runner is at which effect since when, and taking one over."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from stenolog.adapters.store import arguments, claims
from stenolog.adapters.store.handle import LogHandle
from stenolog.adapters.store.liveness import Owner, lives
from stenolog.domain.entry import EPOCH, MICROSECOND

TAKEN = "taken over by a person"
"""The owner of a claim that was taken over: no runner, so that the next one settles it as an orphan."""


class OpenClaim(NamedTuple):
    """An effect under way. `effect` is "model", or "tool" with its call; `since` is aware UTC.

    `alive` tells whether the owner's process lives; one that hangs does. `host` and `pid` name the process,
    and `owner` the runner in it.
    """

    conversation: str
    lane: str
    effect: str
    since: datetime
    host: str
    pid: int
    alive: bool
    owner: str


def listed(log: LogHandle, conversation: str | None = None) -> list[OpenClaim]:
    """Return the claims of a log or a conversation, the oldest first. Raises `ConversationNotFoundError`."""
    _check(log, conversation)
    found = claims.everywhere(log.datastore)
    return [_open(log, name, claim) for name, claim in found if conversation in (None, name)]


def take(log: LogHandle, conversation: str, owner: str | int | None = None) -> list[OpenClaim]:
    """Take a conversation's claims from their owners; see `Log.take_claims`."""
    _check(log, conversation)
    store = claims.Claims(log.datastore, log.stream(conversation))
    before = [(claim, _open(log, conversation, claim)) for claim in store.all()]
    return [
        shown
        for claim, shown in before
        if owner in (None, shown.owner, shown.pid, str(shown.pid)) and store.take_over(claim, TAKEN)
    ]


def _check(log: LogHandle, conversation: str | None) -> None:
    if conversation is not None and conversation not in log:
        raise arguments.missing(conversation, log.path)


def _open(log: LogHandle, conversation: str, claim: claims.Claim) -> OpenClaim:
    owner = Owner.parse(claim.owner)
    return OpenClaim(
        conversation,
        claim.lane,
        claim.effect,
        EPOCH + claim.at * MICROSECOND,
        owner.host,
        owner.pid,
        lives(log.datastore.file, claim.owner),
        owner.id,
    )
