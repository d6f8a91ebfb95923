"""One model call in a program's own loop; its outcome is appended however it ends.

with calling(conversation, request) as call:
    for chunk in call.stream(client.chat.completions.create(**request.body, stream=True)):
        print(chunk)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from stenolog.adapters.models import by_hand
from stenolog.domain.errors import CallerError, ModelError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.lanes.state import State, address
from stenolog.projections.formats.deltas import ResponseDelta
from stenolog.projections.requests import Request

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation

    from .loop_drafts import LoopDraft

C = TypeVar("C")


class Destination(Protocol):
    """Part of a `Conversation` or an `AsyncConversation` that a call needs."""

    def append(self, event: AssistantMessage | LlmError, /) -> object:
        """Append one event."""

    def state(self) -> State | Awaitable[State]:
        """Return the state now, which has the failures so far."""


def _draft(conversation: Any, request: Request) -> LoopDraft | None:
    from .loop_drafts import LoopDraft  # late, as the engine is imported with it

    log = getattr(conversation.log, "sync", conversation.log)
    return None if log.recorder.is_private else LoopDraft(log[conversation.name], request)


def recover(conversation: Conversation) -> int:
    """Append the partial answers of calls whose process was killed; return how many.

    Call it at the start of an own loop. The next request has the partial answer, so the model continues.
    """
    from .loop_drafts import append_drafts  # late, as above

    return append_drafts(conversation)


class CallRecorder:
    """Call of a model, for `with` or `async with`: at the end its answer or error is appended.

    Give `answer` the SDK's result, or iterate over `stream` of it, inside the block. An exception there is
    appended as an error, with the text so far, and raised.
    """

    def __init__(
        self,
        conversation: Destination,
        request: Request,
        attempt: int | None,
        retries: by_hand.Retries | None,
    ) -> None:
        self._conversation = conversation
        self._request = request
        self._attempt = attempt
        self._retries = retries
        self._said: AssistantMessage | None = None
        self._stream: by_hand.Recording[Any] | None = None
        self._draft: LoopDraft | None = None
        self._has_begun = False

    def answer(self, answer: object) -> AssistantMessage:
        """Return the event of a whole answer; see `answer_from`. Raises `ModelError` and `CallerError`."""
        self._said = by_hand.answer_from(answer, self._request)
        return self._said

    def stream(self, stream: Iterable[C] | AsyncIterable[C]) -> by_hand.Recording[C]:
        """Return a stream that passes each chunk on and keeps it; see `Recording`."""
        kept: by_hand.Recording[C] = by_hand.recording(stream, self._request, keep=self._keep)
        self._stream = kept
        return kept

    def _keep(self, pieces: Sequence[ResponseDelta]) -> None:
        if self._draft is None and not self._has_begun:
            self._draft, self._has_begun = _draft(self._conversation, self._request), True
        if self._draft is not None:
            self._draft.take(pieces)

    def __enter__(self) -> CallRecorder:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._draft is not None:
            self._draft.stop()
        answer, failed = self._answer(error)
        event = answer or self._error(error or failed, cast(State, self._conversation.state()))
        is_in_log = False
        try:
            self._conversation.append(event)
            is_in_log = True
        finally:
            # Only now: until then the draft is all that a crash would leave of it.
            if self._draft is not None:
                self._draft.close(is_in_log=is_in_log)
        if failed is not None:
            raise failed

    async def __aenter__(self) -> CallRecorder:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._draft is not None:
            await asyncio.to_thread(self._draft.stop)
        answer, failed = self._answer(error)
        event = answer or self._error(
            error or failed, await cast(Awaitable[State], self._conversation.state())
        )
        is_in_log = False
        try:
            await cast(Awaitable[object], self._conversation.append(event))
            is_in_log = True
        finally:
            if self._draft is not None:
                await asyncio.to_thread(self._draft.close, is_in_log=is_in_log)
        if failed is not None:
            raise failed

    def _answer(
        self, error: BaseException | None
    ) -> tuple[AssistantMessage, None] | tuple[None, ModelError | None]:
        if self._said is not None:
            return self._said, None
        if self._stream is None:
            if error is None:
                raise CallerError("expected call.answer(...) or call.stream(...) in the block, found neither")
            return None, None
        try:
            # An answer that is whole is kept, also where the program failed behind it.
            return self._stream.answer(), None
        except ModelError as failed:
            return None, None if error else failed

    def _error(self, error: BaseException | None, state: State) -> LlmError:
        assert error is not None, "a call without an answer has failed"
        failed = by_hand.model_error(error)
        attempt = self._attempt
        if attempt is None:
            before = state.lane(address(self._request.agent, self._request.task)).attempt
            # A call that was stopped is no failure.
            attempt = before + (failed.category != "cancelled")
        if self._stream is not None:
            return self._stream.error(failed, attempt=attempt, retries=self._retries)
        return by_hand.error_from(failed, self._request, attempt=attempt, retries=self._retries)


def calling(
    conversation: Destination,
    request: Request,
    *,
    attempt: int | None = None,
    retries: by_hand.Retries | None = None,
) -> CallRecorder:
    """Return a block for one model call, at whose end the answer or the error is appended.

    `attempt` counts the failures in a row; None: it is read from the log. With `retries`, a `RetryPolicy`,
    `state().lane(agent).retry_at` is the time of the next attempt; without, there is none. Exceptions of the
    block are raised; an empty or incomplete answer raises `ModelError`. See `CallRecorder`, `error_from`.
    """
    return CallRecorder(conversation, request, attempt, retries)
