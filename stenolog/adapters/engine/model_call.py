"""One model call under way, and what is recorded of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, get_args

from stenolog.adapters.llms.base import ModelResponse, Progress, ResponseDelta
from stenolog.adapters.providers.redaction import hide
from stenolog.adapters.tools.results import error_text as words
from stenolog.adapters.tools.results import leaves
from stenolog.domain.effects import CallModel
from stenolog.domain.errors import CallerError, InvalidEventError, ModelError
from stenolog.domain.events import AssistantMessage, ErrorCategory, LlmError
from stenolog.domain.values import Receipt

from .drafts import StreamDraft, clean_text
from .retries import RetryPolicy

CATEGORIES: tuple[ErrorCategory, ...] = get_args(ErrorCategory)
LONGEST = 2_000
"""So many characters of an error's words are kept."""


@dataclass
class ModelCallRecord:
    """A model call under way: what its events have in common."""

    effect: CallModel
    model: str
    receipt: Receipt
    draft: StreamDraft
    begun: float
    first: float | None = None

    def take(self, piece: ResponseDelta, now: float) -> None:
        """Take a piece of the answer in."""
        if self.first is None and piece.kind != "act":
            self.first = now
        self.draft.add(piece)

    def note(self, progress: Progress) -> None:
        """Keep the latest state of the call."""
        self.draft.progress = progress

    def answered(self, answer: ModelResponse, now: float, to: Iterable[str]) -> AssistantMessage:
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
        self, error: BaseException, now: float, time: datetime, retries: RetryPolicy, chance: float
    ) -> LlmError:
        """The failure as an event, with what had been streamed, and when it is tried again."""
        category, message, after = classify_error(error)
        wait = retries.wait(category, self.effect.attempt, chance, after)
        return LlmError(
            category=category,
            message=message,
            attempt=self.effect.attempt,
            retry_at=None if wait is None else time + timedelta(seconds=wait),
            **self._so_far(),
            **self._common(now),
        )

    def held_back(self, seconds: float, time: datetime) -> LlmError:
        """That the model was not asked, and when it will be: no attempt, and nothing that it must hear of."""
        lane = self.effect.lane
        return LlmError(
            agent=lane.agent,
            task=lane.task,
            cause=self.effect.cause,
            category="overloaded",
            message=f"not asked: its last calls have failed; left alone for {seconds:.0f} s more",
            model=self.model,
            attempt=self.effect.attempt - 1,
            retry_at=time + timedelta(seconds=seconds),
            in_context=False,
        )

    def cancelled(self, now: float, why: str) -> LlmError:
        """That it was stopped, with what had been streamed."""
        return LlmError(
            category="cancelled",
            message=why,
            attempt=self.effect.attempt,
            **self._so_far(),
            **self._common(now),
        )

    def _so_far(self) -> dict[str, Any]:
        """Return the fields of an error that tell how far the call had come."""
        progress = self.draft.progress
        return {
            "parts": self.draft.parts,
            "model": progress.model or self.model,
            "usage": progress.usage,
            "session": progress.session,
        }

    def _common(self, now: float) -> dict[str, Any]:
        lane = self.effect.lane
        return {
            "agent": lane.agent,
            "task": lane.task,
            "cause": self.effect.cause,
            "receipt": self.receipt,
            "duration_ms": _ms(now - self.begun),
        }


def classify_error(error: BaseException) -> tuple[ErrorCategory, str, float | None]:
    """The category and the words of an error, and the seconds that the provider asks to wait.

    Whatever a model may have put into it: the category is one that there is, and the log can hold it all.
    """
    inner = [*leaves(error)]
    if len(inner) != 1:
        return "other", _bounded(words(error)), None
    match inner[0]:
        case ModelError(category=category, message=message, retry_after=after) as failed:
            known: ErrorCategory = next((each for each in CATEGORIES if each == category), "other")
            return known, _bounded(message if isinstance(message, str) else words(failed)), _seconds(after)
        case InvalidEventError() as invalid:
            return "invalid_response", _bounded(str(invalid)), None
        case CallerError() as refused:
            return "invalid_request", _bounded(str(refused)), None
        case other:
            return "other", _bounded(words(other)), None


def _bounded(text: str) -> str:
    return clean_text(hide(text)[:LONGEST])


def _seconds(given: object) -> float | None:
    """Return the seconds that a provider asks to wait; None if that is no finite number from 0 on."""
    return float(given) if isinstance(given, int | float) and 0 <= given < math.inf else None


def _ms(seconds: float) -> int:
    return max(0, round(seconds * 1000))
