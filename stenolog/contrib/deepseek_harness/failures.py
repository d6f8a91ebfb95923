"""Model calls of a dsh session that failed or were stopped, each told once."""

from __future__ import annotations

from datetime import timedelta

from stenolog.events import ErrorCategory, LlmError
from stenolog.importers import Json, JsonObject, as_dict, as_int, as_list, as_str, error_category

from .attempt import Attempt
from .content import SYSTEM, assistant_parts, usage_of
from .state import SessionState

_CODES: dict[str, ErrorCategory] = {
    "AUTH": "unauthorized",
    "RATE_LIMIT": "rate_limited",
    "TIMEOUT": "timeout",
    "NETWORK": "network",
    "CONTEXT_LENGTH": "context_length",
    "CONTEXT_OVERFLOW": "context_length",
    "OVERLOADED": "overloaded",
    "INVALID_REQUEST": "invalid_request",
}


class Failures:
    """The model call that runs, and what became of those before it.

    A failure stands in several records: in the chunks or the attempt, in the retry, and at the end of the
    turn. The first of them is written.
    """

    def __init__(self, session: SessionState) -> None:
        self._session = session
        self.attempt = Attempt()
        self._is_written = False
        self._retries = 0

    def begin_step(self) -> None:
        """Begin a step: a failure from here on is another one."""
        self._is_written, self._retries = False, 0

    def settle(self, stream: list[Json]) -> Attempt:
        """Return the attempt whose answer has come: its chunks so far, or the stream of the answer itself."""
        done, self.attempt = self.attempt, Attempt()
        self.begin_step()
        return done if done or not stream else Attempt().take_all(map(as_dict, stream))

    def take(self, kind: str, data: JsonObject, key: str) -> None:
        """Take an event that may tell a failure."""
        match kind:
            case "assistant/attempt":
                self._flush(key, Attempt().take_all(map(as_dict, as_list(data.get("stream")))))
            case "llm/retry":
                self._retry(data, key)
            case "step/end":
                self._flush(key, self.attempt)
            case _:
                self._end_turn(_reason(data), key)

    def _retry(self, data: JsonObject, key: str) -> None:
        """Take the decision to try again: the failure that it answers is written, if it is not yet."""
        self._retries = max(as_int(data.get("retry")), self._retries + 1)
        delay = as_int(data.get("delayMs"))
        if not self._is_written:
            self._write(key, self.attempt, as_dict(data.get("failure")), delay)
        self.attempt, self._is_written = Attempt(), False

    def _flush(self, key: str, attempt: Attempt) -> None:
        """Write an attempt of which no answer came: it failed, or it was stopped."""
        self.attempt = Attempt()
        failure = as_dict(attempt.finish.get("failure"))
        if attempt and (failure or attempt.blocks) and not self._is_written:
            self._write(key, attempt, failure)

    def _end_turn(self, reason: JsonObject, key: str) -> None:
        kind = as_str(reason.get("kind"))
        if kind == "error":
            self._flush(key, self.attempt)
            if not self._is_written:
                self._write(key, Attempt(), as_dict(reason.get("error")))
        elif kind in ("aborted", "interrupted"):
            attempt, self.attempt = self.attempt, Attempt()
            if not self._is_written:
                by = as_str(as_dict(reason.get("reason")).get("kind"))
                words = "the process ended" if kind == "interrupted" else f"aborted by {by or 'the user'}"
                self._write(key, attempt, {"message": words}, category=_STOPPED[kind])
        else:
            self._session.ignored[f"turn/end {kind}".strip()] += 1
            self._flush(key, self.attempt)
        self.begin_step()

    def _write(
        self,
        key: str,
        attempt: Attempt,
        failure: JsonObject,
        delay: int = 0,
        category: ErrorCategory | None = None,
    ) -> None:
        session = self._session
        card = session.setup.cards[session.writer.main]
        words, code = as_str(failure.get("message")), as_str(failure.get("code"))
        kind = category or _CODES.get(code) or (error_category(words) if words else "cancelled")
        key = f"{key}/error"
        session.settle(key)
        error = LlmError(
            agent=session.writer.main,
            category=kind,
            message=words,
            parts=assistant_parts(attempt.blocks, card.provider, card.model, key),
            model=card.model,
            attempt=self._retries or 1,
            retry_at=session.time + timedelta(milliseconds=delay) if delay else None,
            usage=usage_of(attempt.usage),
            cause=session.writer.last_question(session.writer.main),
            meta={SYSTEM: {"code": code}} if code else {},
            source=session.writer.source(key, "error", key),
        )
        session.writer.write(error, key, session.time)
        self._is_written = True


def _reason(data: JsonObject) -> JsonObject:
    """Return why a turn ended, which the earliest releases tell by a word, or by an error beside it."""
    if error := data.get("error"):
        return {"kind": "error", "error": error if isinstance(error, dict) else {"message": error}}
    reason = data.get("reason")
    return reason if isinstance(reason, dict) else {"kind": as_str(reason)}


_STOPPED: dict[str, ErrorCategory] = {"aborted": "cancelled", "interrupted": "process_exited"}
