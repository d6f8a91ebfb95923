"""One call of a model in a loop of one's own, whose outcome is appended however it ends.

with calling(conversation, request) as call:
    for chunk in call.stream(client.chat.completions.create(**request.body, stream=True)):
        print(chunk)
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Iterable
from typing import Any, Protocol, TypeVar, cast

from stenolog.domain.errors import CallerError, ModelError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.state import State, address
from stenolog.projections.requests import Request

from .by_hand import Recording, Retries, answer_from, error_from, model_error, recording

C = TypeVar("C")


class Destination(Protocol):
    """A `Conversation` or an `AsyncConversation`, by what is needed of it here."""

    def append(self, event: AssistantMessage | LlmError, /) -> object:
        """Write one event behind the last entry."""

    def state(self) -> State | Awaitable[State]:
        """Return the state now, which has the failures so far."""


class CallRecorder:
    """A call of a model, for `with` or `async with`: its answer or its error is appended at the end.

    Give `answer` what the SDK returns, or iterate `stream` of what it returns, inside of the block. Whatever
    is raised there is appended as an error, with the text that had arrived, and raised.
    """

    def __init__(
        self, conversation: Destination, request: Request, attempt: int | None, retries: Retries | None
    ) -> None:
        self._conversation = conversation
        self._request = request
        self._attempt = attempt
        self._retries = retries
        self._said: AssistantMessage | None = None
        self._stream: Recording[Any] | None = None

    def answer(self, answer: object) -> AssistantMessage:
        """Return the event of a whole answer; see `answer_from`. Raises `ModelError` and `CallerError`."""
        self._said = answer_from(answer, self._request)
        return self._said

    def stream(self, stream: Iterable[C] | AsyncIterable[C]) -> Recording[C]:
        """Return a stream that passes each chunk on, and keeps it; see `Recording`."""
        kept: Recording[C] = recording(stream, self._request)
        self._stream = kept
        return kept

    def __enter__(self) -> CallRecorder:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        answer, failed = self._answer(error)
        event = answer or self._error(error or failed, cast(State, self._conversation.state()))
        self._conversation.append(event)
        if failed is not None:
            raise failed

    async def __aenter__(self) -> CallRecorder:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        answer, failed = self._answer(error)
        event = answer or self._error(
            error or failed, await cast(Awaitable[State], self._conversation.state())
        )
        await cast(Awaitable[object], self._conversation.append(event))
        if failed is not None:
            raise failed

    def _answer(
        self, error: BaseException | None
    ) -> tuple[AssistantMessage, None] | tuple[None, ModelError | None]:
        """Return the whole answer; otherwise None, and what is to be raised because nobody has yet."""
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
        """Return the event of the failure, with its number: one more than the failures in a row."""
        assert error is not None, "a call without an answer has failed"
        failed = model_error(error)
        attempt = self._attempt
        if attempt is None:
            before = state.lane(address(self._request.agent, self._request.task)).attempt
            # A call that was stopped is no failure.
            attempt = before + (failed.category != "cancelled")
        if self._stream is not None:
            return self._stream.error(failed, attempt=attempt, retries=self._retries)
        return error_from(failed, self._request, attempt=attempt, retries=self._retries)


def calling(
    conversation: Destination,
    request: Request,
    *,
    attempt: int | None = None,
    retries: Retries | None = None,
) -> CallRecorder:
    """Return a block for one call of a model, at whose end its answer or its error is appended.

    `attempt` counts the failures in a row; None: by the log, in which `state().lane(agent).attempt` has those
    so far. With `retries`, a `RetryPolicy`, `state().lane(agent).retry_at` is the time of the next attempt;
    None: there is none. See `error_from`. Whatever the block raises is raised, and an answer that is empty or
    has no end raises `ModelError`; all of it is appended before. See `CallRecorder`.
    """
    return CallRecorder(conversation, request, attempt, retries)
