"""One model call under way: its events, and drafts of its answer.

A stored draft row is a JSON list: a list for each `ResponseDelta`, an object for a changed `Progress`.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple, get_args

from stenolog.adapters.models.base import Progress
from stenolog.adapters.providers.failures import hide
from stenolog.adapters.tools.results import error_text as words
from stenolog.adapters.tools.results import leaves
from stenolog.domain.base.model import clean
from stenolog.domain.errors import CallerError, InvalidEventError, ModelError, OperationalError
from stenolog.domain.events import AssistantMessage, ErrorCategory, LlmError
from stenolog.domain.lanes.effects import CallModel
from stenolog.domain.parts import AssistantPart
from stenolog.domain.values import Receipt, Usage
from stenolog.projections.formats.deltas import ModelResponse, ResponseDelta, drafted_parts, joined
from stenolog.projections.requests.transport import Outgoing

from .retries import RetryPolicy


class Drafted(NamedTuple):
    """The kept draft of a call whose engine died."""

    parts: tuple[AssistantPart, ...] = ()
    progress: Progress = Progress()


class StreamDraft:
    """Pieces of one answer, and how many of them are stored."""

    def __init__(self, fence: int) -> None:
        self.fence = fence
        self.progress = Progress()
        self._said: list[ResponseDelta] = []
        self._kept = 0, self.progress

    def add(self, piece: ResponseDelta) -> None:
        """Take a piece in."""
        self._said.append(piece)

    @property
    def is_kept(self) -> bool:
        """True if all its pieces are stored."""
        return self._kept == self._progress

    def unkept(self) -> tuple[bytes, tuple[int, Progress]]:
        """Return the unstored pieces as JSON, and the mark for `keep_drafts`."""
        number, progress = self._kept
        # Only what is new is written: a long answer would otherwise be written again ten times a second.
        rows: list[object] = [*joined(self._said[number:])]
        if self.progress != progress:
            rows.append(_dumped(self.progress))
        return json.dumps(rows).encode(), self._progress

    def keep(self, mark: tuple[int, Progress]) -> None:
        """Note that the pieces up to the mark are stored."""
        self._kept = mark

    @property
    def parts(self) -> tuple[AssistantPart, ...]:
        """The parts streamed so far."""
        return drafted_parts(self._said)

    @property
    def drafted(self) -> Drafted:
        """The draft as `load_draft` would give it."""
        return Drafted(self.parts, self.progress)

    @property
    def _progress(self) -> tuple[int, Progress]:
        return len(self._said), self.progress


def keep_drafts(drafts: Iterable[StreamDraft], write: Callable[[list[tuple[int, bytes]]], None]) -> None:
    """Write the drafts' new pieces, and mark them as stored."""
    # Marks are taken before the write, as more pieces may stream while it lasts.
    news = [(draft, *draft.unkept()) for draft in drafts if not draft.is_kept]
    write([(draft.fence, rows) for draft, rows, _ in news])
    for draft, _, mark in news:
        draft.keep(mark)


class DraftKeeper:
    """Drafts of a runner's model calls, stored at the store's interval."""

    def __init__(self, interval: float, store: Callable[[Sequence[StreamDraft]], Awaitable[None]]) -> None:
        self._interval = interval
        self._store = store
        self._drafts: dict[int, StreamDraft] = {}
        self.task: asyncio.Task[None] | None = None
        """The task that stores them, while there is something to store."""

    def keep(self, draft: StreamDraft) -> None:
        """Schedule a draft to be stored."""
        self._drafts[draft.fence] = draft
        if self.task is None:
            self.task = asyncio.create_task(self._keep_soon())

    def forget(self, draft: StreamDraft) -> None:
        """Drop a draft whose answer is about to be appended."""
        self._drafts.pop(draft.fence, None)

    def of(self, fence: int) -> StreamDraft | None:
        """Return the draft under a claim."""
        return self._drafts.get(fence)

    async def _keep_soon(self) -> None:
        while not all(draft.is_kept for draft in self._drafts.values()):
            await asyncio.sleep(self._interval)
            # A draft is no truth; whether the log can be written shows when the entry is appended.
            with suppress(OperationalError):
                await self._store([*self._drafts.values()])
        self.task = None


def load_draft(kept: Iterable[bytes]) -> Drafted:
    """Return the draft from its stored rows."""
    rows = [row for text in kept for row in json.loads(text)]
    progress = [_loaded(row) for row in rows if isinstance(row, dict)]
    return Drafted(
        drafted_parts([ResponseDelta(*row) for row in rows if isinstance(row, list)]), *progress[-1:]
    )


def _dumped(progress: Progress) -> dict[str, object]:
    usage = None if progress.usage is None else asdict(progress.usage)
    return {**progress._asdict(), "usage": usage}


def _loaded(row: dict[str, object]) -> Progress:
    usage = row.get("usage")
    return Progress(**{**row, "usage": Usage(**usage) if isinstance(usage, dict) else None})  # type: ignore[arg-type]


CATEGORIES: tuple[ErrorCategory, ...] = get_args(ErrorCategory)
LONGEST = 2_000
"""The number of characters of an error's words that are kept."""


class RecordedVerdictError(ModelError):
    """The recorded error of an answer that was judged, in a replay."""

    def __init__(self, event: LlmError) -> None:
        super().__init__(event.category, event.message)
        self.event = event


@dataclass
class OngoingModelCall:
    """Model call under way, and what its events have in common."""

    effect: CallModel
    model: str
    receipt: Receipt | None
    draft: StreamDraft
    begun: float
    first: float | None = None
    earlier: int = 0
    """The number of the agent's models before this one: each has failed once."""

    def dispatched(self, outgoing: Outgoing) -> None:
        """Name the bytes sent now in the receipt; those of a fallback replace earlier ones."""
        sent, transport = outgoing.sha256, outgoing.transport.json
        self.receipt = self.receipt and replace(self.receipt, sent=sent, transport=transport)

    def withdrawn(self) -> None:
        """Drop the receipt: the request was not sent."""
        self.receipt = None

    def take(self, piece: ResponseDelta, now: float) -> None:
        """Take a piece of the answer in."""
        # An act is something that a program does, and no word of its answer.
        if self.first is None and piece.kind != "act":
            self.first = now
        self.draft.add(piece)

    def update(self, progress: Progress) -> None:
        """Keep the latest state of the call."""
        self.draft.progress = progress

    def answered(self, answer: ModelResponse, now: float, to: Iterable[str]) -> AssistantMessage:
        """Return the answer as an event."""
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
        """Return the failure as an event, with the partial text and the time of the next attempt."""
        if isinstance(error, RecordedVerdictError):
            again = time if error.event.retry_at else None
            unsent = {} if error.event.receipt else {"receipt": None, "duration_ms": None}
            return replace(error.event, retry_at=again, **(self._common(now) | unsent))
        category, message, after = classify_error(error)
        # A call that was stopped is no attempt; a replayed one says when it goes on.
        is_stopped = category == "cancelled" and after is not None
        attempt = max(1, self.effect.attempt - self.earlier)
        wait = after if is_stopped else retries.wait(category, attempt, chance, after)
        return LlmError(
            category=category,
            message=message,
            attempt=self.effect.attempt - is_stopped,
            retry_at=None if wait is None else time + timedelta(seconds=wait),
            **self._so_far(),
            **self._common(now),
        )

    def held_back(self, seconds: float, time: datetime) -> LlmError:
        """Return the error of a call that the breaker held back; it counts as no attempt."""
        lane = self.effect.lane
        return LlmError(
            agent=lane.agent,
            task=lane.task,
            cause=self.effect.cause,
            category="overloaded",
            message=(
                f"{self.model} is not called: too many calls in a row have failed; the next try is in "
                f"{seconds:.0f} s"
            ),
            model=self.model,
            # No provider was asked, so it is no attempt.
            attempt=self.effect.attempt - 1,
            retry_at=time + timedelta(seconds=seconds),
            # The model need not hear of a call that was never made.
            in_context=False,
        )

    def cancelled(self, now: float, why: str) -> LlmError:
        """Return the error of a cancelled call, with the partial text."""
        return LlmError(
            category="cancelled",
            message=why,
            attempt=self.effect.attempt,
            **self._so_far(),
            **self._common(now),
        )

    def _so_far(self) -> dict[str, Any]:
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
    """Return an error's category, its text, and the seconds that the provider asks to wait.

    The log can hold all of it, whatever the model raised.
    """
    inner = [*leaves(error)]
    # Several errors at once have no one category.
    if len(inner) != 1:
        return "other", _bounded(words(error)), None
    match inner[0]:
        case ModelError(category=category, message=message, retry_after=after) as failed:
            # A model from outside may raise any category, and the log holds known ones only.
            known: ErrorCategory = next((each for each in CATEGORIES if each == category), "other")
            return known, _bounded(message if isinstance(message, str) else words(failed)), _seconds(after)
        case InvalidEventError() as invalid:
            return "invalid_response", _bounded(str(invalid)), None
        case CallerError() as refused:
            return "invalid_request", _bounded(str(refused)), None
        case other:
            return "other", _bounded(words(other)), None


def _bounded(text: str) -> str:
    # Hidden first: half of a secret, cut off, would no longer be recognised.
    return clean(hide(text)[:LONGEST])


def _seconds(given: object) -> float | None:
    return float(given) if isinstance(given, int | float) and 0 <= given < math.inf else None


def _ms(seconds: float) -> int:
    return max(0, round(seconds * 1000))
