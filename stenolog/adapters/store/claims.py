"""Claims on effects, durable before an effect begins.

They are not truth. A claim is deleted in the transaction that logs its effect's result; a dead owner's means
that the outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from stenolog.adapters.store.contract.claim_owner import Owner
from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import Claim, Stream
from stenolog.domain.entry import EPOCH, MICROSECOND

from .reading import arguments
from .reading.handle import LogHandle


class Claims:
    """A conversation's claims; see `ClaimStore` and `DraftStore` for the methods."""

    def __init__(self, recorder: LogRecorder, stream: Stream) -> None:
        self._recorder = recorder
        self._stream = stream

    def take(self, wanted: Sequence[Claim], expected: int) -> list[Claim | None]:
        """Return the claims with fences; None for one that another process has.

        Raises `VersionConflictError` if the log is no longer at `expected`, where they were decided.
        """
        return self._recorder.claims.take(self._stream, wanted, expected)

    def all(self) -> list[Claim]:
        """Return all claims, the oldest first."""
        return [] if self._stream.key is None else self._recorder.claims.of(self._stream)

    def take_over(self, claim: Claim, owner: str) -> Claim | None:
        """Return a dead owner's claim under a new fence, with drafts; None if it is gone."""
        return self._recorder.claims.take_over(self._stream, claim, owner)

    def release(self, claim: Claim) -> None:
        """Release an effect that was not started, or may be started again."""
        self._recorder.claims.release(claim)

    def draft(self, said: Iterable[tuple[int, bytes]]) -> None:
        """Store newly streamed pieces by fence, as JSON, unless the claim is gone."""
        if rows := list(said):
            self._recorder.drafts.add(rows)

    def drafted(self, claim: Claim) -> list[bytes]:
        """Return a claim's streamed pieces, in order."""
        return self._recorder.drafts.of(claim.fence)


# The name of no runner, so that the next runner settles the claim as an orphan.
TAKEN = "taken over by a person"
"""The owner of a claim that was taken over."""


class OpenClaim(NamedTuple):
    """A running effect. `effect` is "model", or "tool" with its call; `since` is aware UTC.

    `alive`: the owner's process lives, perhaps hanging. `host` and `pid` name the process, `owner` its
    runner.
    """

    conversation: str
    lane: str
    effect: str
    since: datetime
    host: str
    pid: int
    alive: bool
    owner: str


def open_claims(log: LogHandle, conversation: str | None = None) -> list[OpenClaim]:
    """Return a log's or conversation's claims, oldest first. Raises `ConversationNotFoundError`."""
    _check_conversation(log, conversation)
    found = log.recorder.claims.everywhere()
    return [_open_claim(log, name, claim) for name, claim in found if conversation in (None, name)]


def take_over(log: LogHandle, conversation: str, owner: str | int | None = None) -> list[OpenClaim]:
    """Take over claims as `Log.take_claims`."""
    _check_conversation(log, conversation)
    store = Claims(log.recorder, log.stream(conversation))
    before = [(claim, _open_claim(log, conversation, claim)) for claim in store.all()]
    return [
        shown
        for claim, shown in before
        if owner in (None, shown.owner, shown.pid, str(shown.pid)) and store.take_over(claim, TAKEN)
    ]


def _check_conversation(log: LogHandle, conversation: str | None) -> None:
    if conversation is not None and conversation not in log:
        raise arguments.missing(conversation, log.path)


def _open_claim(log: LogHandle, conversation: str, claim: Claim) -> OpenClaim:
    owner = Owner.parse(claim.owner)
    return OpenClaim(
        conversation,
        claim.lane,
        claim.effect,
        EPOCH + claim.at * MICROSECOND,
        owner.host,
        owner.pid,
        log.recorder.claims.owner_lives(claim.owner),
        owner.id,
    )
