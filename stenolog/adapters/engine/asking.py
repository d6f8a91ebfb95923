"""One model call under way, and what is recorded of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from stenolog.adapters.llms.port import Answer, Said
from stenolog.domain.effects import ModelCall
from stenolog.domain.errors import CallerError, InvalidEvent, ModelFailed, StenologError
from stenolog.domain.events import AssistantMessage, ErrorCategory, LlmError
from stenolog.domain.values import Receipt

from .drafts import Draft
from .retries import Retries

LONGEST = 2_000
"""So many characters of an error's words are kept."""


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
