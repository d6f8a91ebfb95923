"""Drafts of calls in a program's own loop: stored and recovered like the engine's."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import Event, Thread

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.journal.journal import RECEIPT
from stenolog.adapters.engine.journal.recovery import DIED
from stenolog.adapters.engine.model_calls.model_call import Drafted, StreamDraft, keep_drafts, load_draft
from stenolog.adapters.store.claims import Claims
from stenolog.adapters.store.contract.values import Claim
from stenolog.domain.entry import microseconds
from stenolog.domain.errors import OperationalError, VersionConflictError
from stenolog.domain.lanes.effects import MODEL, interrupted_call
from stenolog.domain.lanes.state import address
from stenolog.projections.formats.deltas import ResponseDelta
from stenolog.projections.requests import Request

INTERVAL = 0.5
"""Seconds between two writes of a draft."""


class LoopDraft:
    """Draft of one call. Its claim shows whose process died."""

    def __init__(self, conversation: Conversation, request: Request) -> None:
        self._conversation = conversation
        self._request = request
        self._claims = Claims(conversation.log.recorder, conversation.stream)
        self._presence = conversation.log.recorder.claims.presence(conversation.log.edge.id())
        self._claim: Claim | None = None
        self._draft = StreamDraft(0)
        self._end = Event()
        self._thread = Thread(target=self._keep, name="stenolog draft", daemon=True)

    def take(self, pieces: Sequence[ResponseDelta]) -> None:
        """Take pieces of the answer in; the first are stored at once, later ones each half second."""
        for piece in pieces:
            self._draft.add(piece)
        if self._thread.ident is None:
            self._thread.start()

    def stop(self) -> None:
        """Store no more: the outcome is about to be appended."""
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join()

    def close(self, *, is_in_log: bool) -> None:
        """Remove the draft if the outcome is in the log; else leave it for recovery."""
        if self._claim is not None and is_in_log:
            self._claims.release(self._claim)
        self._presence.close(keep=self._claim is not None and not is_in_log)

    def _keep(self) -> None:
        # A draft is no truth; whether the log can be written shows when the entry is appended.
        with suppress(OperationalError, VersionConflictError):
            self._claim = self._claimed()
        if self._claim is None:
            return  # another process is at this call, or nothing is to be answered
        self._draft.fence = self._claim.fence
        while True:
            with suppress(OperationalError):
                keep_drafts([self._draft], self._claims.draft)
            if self._end.wait(INTERVAL):
                return

    def _claimed(self) -> Claim | None:
        state = self._conversation.state()
        where = address(self._request.agent, self._request.task)
        lane = state.lane(where)
        if lane.status != "awaiting_llm":
            return None
        now = microseconds(self._conversation.log.edge.clock())
        claim = Claim(
            0,
            where,
            MODEL,
            lane.asked,
            lane.attempt + 1,
            "",
            self._presence.owner,
            now,
            RECEIPT.dump(self._request.receipt),
        )
        return self._claims.take([claim], state.position)[0]


def append_drafts(conversation: Conversation) -> int:
    """Append the partial answers of calls whose process was killed; return how many."""
    claims, recorder, found = (
        Claims(conversation.log.recorder, conversation.stream),
        conversation.log.recorder,
        0,
    )
    dead = [
        each for each in claims.all() if each.effect == MODEL and not recorder.claims.owner_lives(each.owner)
    ]
    if not dead:
        return 0
    presence = recorder.claims.presence(conversation.log.edge.id())
    try:
        for claim in dead:
            mine = claims.take_over(claim, presence.owner)
            if mine is not None:
                found += _append_error(conversation, mine, load_draft(claims.drafted(mine)))
                claims.release(mine)
    finally:
        presence.close()
    return found


def _append_error(conversation: Conversation, claim: Claim, drafted: Drafted) -> bool:
    """Append the end of a call if the lane still waits for it; return whether it does."""
    receipt = RECEIPT.load(claim.receipt) if claim.receipt else None
    while True:
        state = conversation.state()
        lane = state.lane(claim.lane)
        if lane.status != "awaiting_llm" or lane.asked != claim.cause:
            return False
        error = interrupted_call(lane, claim.cause, claim.attempt, drafted.parts, receipt, DIED, None)
        with suppress(VersionConflictError):
            conversation.append(error, expected=state.position)
            return True
