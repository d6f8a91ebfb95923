"""Streaming of an answer within its model's timeouts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeAlias

from stenolog.adapters.models.base import Model, ModelRequest, Progress
from stenolog.domain.errors import ModelError
from stenolog.domain.parts import ProviderPart, says_something
from stenolog.domain.values import Usage
from stenolog.projections.formats.deltas import ModelResponse, ResponseDelta
from stenolog.projections.requests.transport import Outgoing

from .model_call import classify_error

# A model that closes slowly must keep no other one waiting.
GRACE = 2.0
"""Seconds that a model has to close its stream after it was stopped."""
# A model whose stream never waits would keep the event loop to itself.
BREATH = 0.05
"""Seconds after which a model that never waits lets others run."""
# The event loop itself holds tasks weakly.
_abandoned: set[asyncio.Task[None]] = set()


Take: TypeAlias = Callable[[ResponseDelta | Progress], None]
Dispatch: TypeAlias = Callable[[Outgoing], Awaitable[None]]


async def stream_with_timeouts(
    model: Model, prompt: ModelRequest, take: Take, dispatch: Dispatch
) -> ModelResponse:
    """Return the answer to a prompt, and pass its pieces to `take` as they come. Raises `ModelError`.

    `dispatch` gets the bytes before they are sent; if it raises, they are not sent.
    """
    listening = _Stream(model, prompt, take, dispatch)
    task = asyncio.create_task(listening.run(), name=f"model {prompt.lane:.64}")
    ends: list[asyncio.Future[Any]] = [task, listening.answered]
    try:
        while not any(end.done() for end in ends):
            await asyncio.wait(ends, timeout=listening.patience, return_when=asyncio.FIRST_COMPLETED)
            if not any(end.done() for end in ends) and (late := listening.late):
                raise ModelError("timeout", late)
        # A model may have to tidy up behind its answer.
        await asyncio.wait({task}, timeout=GRACE)
        return listening.end(task)
    except asyncio.CancelledError:
        # The answer is whole, and paid for.
        if listening.answered.done():
            return listening.end(task)
        raise
    finally:
        if task.done():
            _forget(task)
        else:
            await _stop(task, listening)


async def _stop(task: asyncio.Task[None], listening: _Stream) -> None:
    listening.is_over = True
    _abandoned.add(task)
    task.add_done_callback(_forget)
    task.cancel()
    if not listening.answered.done():
        await asyncio.wait({task}, timeout=GRACE)


def _forget(task: asyncio.Task[None]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        # Retrieved, so that asyncio does not report it as an error that was never seen.
        task.exception()


class _Stream:
    def __init__(self, model: Model, prompt: ModelRequest, take: Take, dispatch: Dispatch) -> None:
        self.model = model
        self.prompt = prompt
        self.take = take
        self.dispatch = dispatch
        self.is_over = False
        self._now = asyncio.get_running_loop().time
        self._begun = self._last = self._now()
        self._is_first = True
        self.answered: asyncio.Future[ModelResponse] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Take in the pieces. Raises `ModelError`, and whatever else a model raises."""
        try:
            await self._take_in()
        # In a task, a `SystemExit` would end the program.
        except (SystemExit, BaseExceptionGroup) as error:
            category, words, after = classify_error(error)
            raise ModelError(category, words, retry_after=after) from error

    async def _take_in(self) -> None:
        rested = self._now()
        async with aclosing(self.model.stream(self.prompt)) as pieces:
            async for piece in pieces:
                # The call was given up: what the model still says must not reach the log.
                if self.is_over:
                    return
                self._last = self._now()
                # Notes on progress and on the bytes sent are no token.
                self._is_first = self._is_first and isinstance(piece, Progress | Outgoing)
                if self.answered.done():
                    # Nothing counts behind an answer.
                    continue
                if isinstance(piece, Outgoing):
                    await self.dispatch(piece)
                elif isinstance(piece, ModelResponse):
                    self.answered.set_result(piece)
                else:
                    self.take(_sound(piece))
                if self._last - rested > BREATH:
                    await asyncio.sleep(0)
                    rested = self._now()

    @property
    def patience(self) -> float | None:
        """Seconds until something can be late; None: never."""
        waits = [end - self._now() for end, _ in self._ends()]
        if self._is_first and self.model.timeouts.idle is not None:
            # It counts from the first piece on, which may come while this wait lasts.
            waits.append(self.model.timeouts.idle)
        return max(0.0, min(waits)) if waits else None

    @property
    def late(self) -> str:
        now = self._now()
        return next((words for end, words in self._ends() if now >= end), "")

    def end(self, task: asyncio.Task[None]) -> ModelResponse:
        """Return the answer that the stream gave, however it ended after that."""
        if self.answered.done():
            return _check_answer(self.answered.result())
        if task.cancelled():
            raise ModelError("other", "the call was cancelled from within")
        error = task.exception()
        # Such as that of a socket: it is the provider's, and may be tried again.
        if isinstance(error, TimeoutError):
            raise ModelError("timeout", str(error)) from error
        if error is not None:
            raise error
        raise ModelError("invalid_response", "the stream ended without an answer")

    def _ends(self) -> list[tuple[float, str]]:
        """Return (deadline, message) for each timeout that applies now."""
        limits = self.model.timeouts
        allowed, what = (limits.first_token, "first token") if self._is_first else (limits.idle, "token")
        ends = []
        if limits.total is not None:
            ends.append((self._begun + limits.total, f"the call took more than {limits.total:g} s"))
        if allowed is not None:
            ends.append((self._last + allowed, f"no {what} for {allowed:g} s"))
        return ends


def _sound(piece: object) -> ResponseDelta | Progress:
    """Return the piece, checked: the model may be a plugin's."""
    match piece:
        case ResponseDelta(int(), str(), str(), str(), str()):
            return piece
        case Progress(str(), str(), None | Usage(), str()):
            return piece
        case _:
            raise ModelError(
                "invalid_response", f"expected ResponseDelta, Progress or ModelResponse, found {piece!r:.200}"
            )


def _check_answer(answer: ModelResponse) -> ModelResponse:
    """Return the answer. Raises `ModelError` if it is empty."""
    if not says_something(answer.parts) and not any(isinstance(part, ProviderPart) for part in answer.parts):
        raise ModelError("invalid_response", "an answer with nothing in it")
    return answer
