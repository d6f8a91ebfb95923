"""One model call: its pieces as they come, within its timeouts, to what is recorded of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from stenolog.adapters.llms.port import Answer, Model, Prompt, Said
from stenolog.domain.effects import ModelCall
from stenolog.domain.errors import CallerError, InvalidEvent, ModelFailed, StenologError
from stenolog.domain.events import AssistantMessage, ErrorCategory, LlmError
from stenolog.domain.parts import Opaque, says_something
from stenolog.domain.values import Receipt

from .drafts import Draft
from .retries import Retries

LONGEST = 2_000
"""So many characters of an error's words are kept."""


async def streamed(model: Model, prompt: Prompt, take: Callable[[Said], None]) -> Answer:
    """The answer to a prompt, its pieces handed on as they come. Raises `ModelFailed`."""
    limits, now = model.timeouts, asyncio.get_running_loop().time
    end = None if limits.whole is None else now() + limits.whole
    answer: Answer | None = None
    waiting, allowed = "first token", limits.first
    try:
        async with asyncio.timeout(None) as patience, aclosing(model.stream(prompt)) as pieces:
            patience.reschedule(_earliest(now(), allowed, end))
            async for piece in pieces:
                if isinstance(piece, Answer):
                    answer = piece
                else:
                    take(_sound(piece))
                waiting, allowed = "token", limits.between
                patience.reschedule(_earliest(now(), allowed, end))
    except TimeoutError as error:
        if not patience.expired():
            raise ModelFailed("timeout", str(error)) from error
        if end is not None and now() >= end:
            raise ModelFailed("timeout", f"the call took more than {limits.whole:g} s") from None
        raise ModelFailed("timeout", f"no {waiting} for {allowed:g} s") from None
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise
        raise ModelFailed("other", "the call was cancelled from within") from None
    if answer is None:
        raise ModelFailed("invalid_response", "the stream ended without an answer")
    if not says_something(answer.parts) and not any(isinstance(part, Opaque) for part in answer.parts):
        raise ModelFailed("invalid_response", "an answer with nothing in it")
    return answer


def _sound(piece: object) -> Said:
    """The piece, which a model of somebody else's may have made."""
    match piece:
        case Said(int(), str(), str(), str(), str()):
            return piece
        case _:
            raise ModelFailed("invalid_response", f"expected Said or Answer, found {piece!r:.200}")


def _earliest(now: float, allowed: float | None, end: float | None) -> float | None:
    """When the next piece is due at the latest."""
    due = None if allowed is None else now + allowed
    return min((each for each in (due, end) if each is not None), default=None)


@dataclass
class Asking:
    """A model call under way: what its events have in common."""

    effect: ModelCall
    model: str
    receipt: Receipt
    draft: Draft
    begun: float
    first: float | None = None

    def take(self, piece: Said, now: float) -> None:
        """Take a piece of the answer in."""
        if self.first is None:
            self.first = now
        self.draft.add(piece)

    def answered(self, answer: Answer, now: float, to: Iterable[str]) -> AssistantMessage:
        """The answer as an event."""
        return AssistantMessage(
            parts=answer.parts,
            to=list(to),
            model=answer.model or self.model,
            finish_reason=answer.finish_reason,
            usage=answer.usage,
            session=answer.session,
            first_token_ms=None if self.first is None else _ms(self.first - self.begun),
            **self._common(now),
        )

    def failed(
        self, error: BaseException, now: float, at: datetime, retries: Retries, chance: float
    ) -> LlmError:
        """The failure as an event, with what had been streamed, and when it is tried again."""
        category, message, after = told(error)
        wait = retries.wait(category, self.effect.attempt, chance, after)
        return LlmError(
            category=category,
            message=message[:LONGEST],
            parts=self.draft.parts,
            model=self.model,
            attempt=self.effect.attempt,
            retry_at=None if wait is None else at + timedelta(seconds=wait),
            **self._common(now),
        )

    def cancelled(self, now: float, why: str) -> LlmError:
        """That it was stopped, with what had been streamed."""
        return LlmError(
            category="cancelled",
            message=why,
            parts=self.draft.parts,
            model=self.model,
            attempt=self.effect.attempt,
            **self._common(now),
        )

    def _common(self, now: float) -> dict[str, Any]:
        lane = self.effect.lane
        return {
            "agent": lane.agent,
            "task": lane.task,
            "cause": self.effect.cause,
            "receipt": self.receipt,
            "duration_ms": _ms(now - self.begun),
        }


def told(error: BaseException) -> tuple[ErrorCategory, str, float | None]:
    """The category and the words of an error, and the seconds that the provider asks to wait."""
    if isinstance(error, ModelFailed):
        return error.category, error.message, error.retry_after  # type: ignore[return-value]
    if isinstance(error, InvalidEvent):
        return "invalid_response", str(error), None
    if isinstance(error, StenologError) and isinstance(error, CallerError):
        return "invalid_request", str(error), None
    return "other", f"{type(error).__name__}: {error}", None


def _ms(seconds: float) -> int:
    return max(0, round(seconds * 1000))
