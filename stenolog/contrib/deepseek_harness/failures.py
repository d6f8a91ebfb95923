"""Model calls of a dsh session that failed or were stopped, each written once."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from stenolog.events import ErrorCategory
from stenolog.importers import (
    Json,
    JsonObject,
    SessionConverter,
    as_dict,
    as_int,
    as_list,
    as_str,
    error_category,
)

from .notes import ANSWERS, SYSTEM, usage_of

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
_STOPPED: dict[str, ErrorCategory] = {"aborted": "cancelled", "interrupted": "process_exited"}
_PACKED = {"text-chunks": "text", "reasoning-chunks": "reasoning"}
_DELTAS = {"text-delta": "text", "reasoning-delta": "reasoning"}


class Failures:
    """The running model call, and how earlier ones ended.

    Several records report a failure: chunks or attempt, the retry, the turn's end. The first one is written.
    """

    def __init__(self, session: SessionConverter) -> None:
        self._session = session
        self.attempt = Attempt()
        self._is_written = False
        self._retries = 0

    def begin_step(self) -> None:
        """Begin a step: a failure from here on is another one."""
        self._is_written, self._retries = False, 0

    def settle(self, stream: list[Json]) -> Attempt:
        """Return the attempt whose answer has come: its chunks, or the answer's own stream."""
        done, self.attempt = self.attempt, Attempt()
        self.begin_step()
        return done if done or not stream else Attempt().take_all(map(as_dict, stream))

    def take(self, kind: str, data: JsonObject, key: str) -> None:
        """Read an event that may report a failure."""
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
        """Read a decision to retry; write the failure before it if not yet written."""
        self._retries = max(as_int(data.get("retry")), self._retries + 1)
        delay = as_int(data.get("delayMs"))
        if not self._is_written:
            self._write(key, self.attempt, as_dict(data.get("failure")), delay)
        self.attempt, self._is_written = Attempt(), False

    def _flush(self, key: str, attempt: Attempt) -> None:
        """Write an attempt without an answer: failed or stopped."""
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
        session.write_error(
            key,
            words,
            kind,
            ANSWERS.parts(attempt.blocks, provider=card.provider, model=card.model, key=key),
            message=key,
            model=card.model,
            attempt=self._retries or 1,
            retry_at=session.time + timedelta(milliseconds=delay) if delay else None,
            usage=usage_of(attempt.usage),
            cause=session.writer.last_question(session.writer.main),
            meta={SYSTEM: {"code": code}} if code else {},
        )
        self._is_written = True


def _reason(data: JsonObject) -> JsonObject:
    """Return the reason a turn ended; the earliest releases have a word, or an error beside it."""
    if error := data.get("error"):
        return {"kind": "error", "error": error if isinstance(error, dict) else {"message": error}}
    reason = data.get("reason")
    return reason if isinstance(reason, dict) else {"kind": as_str(reason)}


class Attempt:
    """The streamed blocks of a model call, and how it ended.

    Versions 0 and 1 have chunks as events, or packed into rows; later ones keep them in the event of the
    answer or failed attempt.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, JsonObject] = {}
        self.finish: JsonObject = {}
        self.usage: JsonObject = {}

    def __bool__(self) -> bool:
        return bool(self._blocks or self.finish)

    @property
    def blocks(self) -> list[JsonObject]:
        """Return the blocks in order, without calls that have no name yet."""
        found = (self._blocks[index] for index in sorted(self._blocks))
        return [block for block in found if block.get("text") or block.get("name")]

    def take_all(self, stream: Iterable[JsonObject]) -> Attempt:
        """Take a whole stream, as an event holds it, and return the attempt."""
        for item in stream:
            if item.get("type") == "chunk":
                self.take(as_dict(item.get("chunk")))
            else:
                self.take_packed(as_str(item.get("type")), item)
        return self

    def take(self, chunk: JsonObject) -> None:
        """Take one chunk."""
        index, kind = as_int(chunk.get("index")), as_str(chunk.get("type"))
        if kind in _DELTAS:
            self._add(index, _DELTAS[kind], "text", as_str(chunk.get("text")))
        elif kind == "tool-call-delta":
            self._call(index, chunk, as_str(chunk.get("argumentsDelta")))
        elif kind == "block-end" and isinstance(chunk.get("block"), dict):
            self._blocks[index] = chunk["block"]
        elif kind == "usage":
            self.usage = as_dict(chunk.get("usage"))
        elif kind == "finish":
            self.finish = as_dict(chunk.get("reason"))

    def take_packed(self, kind: str, row: JsonObject) -> None:
        """Take a row of several chunks of one block."""
        index = as_int(row.get("index"))
        if kind in _PACKED:
            self._add(index, _PACKED[kind], "text", "".join(map(as_str, as_list(row.get("texts")))))
        elif kind == "tool-call-chunks":
            self._call(index, row, "".join(map(as_str, as_list(row.get("args")))))

    def _call(self, index: int, told: JsonObject, arguments: str) -> None:
        block = self._add(index, "tool-call", "arguments", arguments)
        block.update({name: told[name] for name in ("id", "name") if as_str(told.get(name))})

    def _add(self, index: int, kind: str, field: str, words: str) -> JsonObject:
        block = self._blocks.setdefault(index, {"type": kind, field: ""})
        block[field] = as_str(block.get(field)) + words
        return block
