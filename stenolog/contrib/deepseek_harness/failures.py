"""Model calls of a dsh session that failed or were stopped, each written once."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from stenolog import importers
from stenolog.events import ErrorCategory

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

    def __init__(self, session: importers.SessionConverter) -> None:
        self._session = session
        self.attempt = Attempt()
        self._is_written = False
        self._retries = 0

    def begin_step(self) -> None:
        """Begin a step: a failure from here on is another one."""
        self._is_written, self._retries = False, 0

    def settle(self, stream: list[importers.Json]) -> Attempt:
        """Return the attempt whose answer has come: its chunks, or the answer's own stream."""
        done, self.attempt = self.attempt, Attempt()
        self.begin_step()
        return done if done or not stream else Attempt().take_all(map(importers.as_dict, stream))

    def take(self, kind: str, data: importers.JsonObject, key: str) -> None:
        """Read an event that may report a failure."""
        match kind:
            case "assistant/attempt":
                self._flush(
                    key, Attempt().take_all(map(importers.as_dict, importers.as_list(data.get("stream"))))
                )
            case "llm/retry":
                self._retry(data, key)
            case "step/end":
                self._flush(key, self.attempt)
            case _:
                self._end_turn(_reason(data), key)

    def _retry(self, data: importers.JsonObject, key: str) -> None:
        self._retries = max(importers.as_int(data.get("retry")), self._retries + 1)
        delay = importers.as_int(data.get("delayMs"))
        if not self._is_written:
            self._write(key, self.attempt, importers.as_dict(data.get("failure")), delay)
        self.attempt, self._is_written = Attempt(), False

    def _flush(self, key: str, attempt: Attempt) -> None:
        """Write an attempt without an answer: failed or stopped."""
        self.attempt = Attempt()
        failure = importers.as_dict(attempt.finish.get("failure"))
        if attempt and (failure or attempt.blocks) and not self._is_written:
            self._write(key, attempt, failure)

    def _end_turn(self, reason: importers.JsonObject, key: str) -> None:
        kind = importers.as_str(reason.get("kind"))
        if kind == "error":
            self._flush(key, self.attempt)
            if not self._is_written:
                self._write(key, Attempt(), importers.as_dict(reason.get("error")))
        elif kind in ("aborted", "interrupted"):
            attempt, self.attempt = self.attempt, Attempt()
            if not self._is_written:
                by = importers.as_str(importers.as_dict(reason.get("reason")).get("kind"))
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
        failure: importers.JsonObject,
        delay: int = 0,
        category: ErrorCategory | None = None,
    ) -> None:
        session = self._session
        card = session.setup.cards[session.writer.main]
        words, code = importers.as_str(failure.get("message")), importers.as_str(failure.get("code"))
        kind = category or _CODES.get(code) or (importers.error_category(words) if words else "cancelled")
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


def _reason(data: importers.JsonObject) -> importers.JsonObject:
    """Return the reason a turn ended; the earliest releases have a word, or an error beside it."""
    if error := data.get("error"):
        return {"kind": "error", "error": error if isinstance(error, dict) else {"message": error}}
    reason = data.get("reason")
    return reason if isinstance(reason, dict) else {"kind": importers.as_str(reason)}


class Attempt:
    """The streamed blocks of a model call, and how it ended.

    Versions 0 and 1 have chunks as events, or packed into rows; later ones keep them in the event of the
    answer or failed attempt.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, importers.JsonObject] = {}
        self.finish: importers.JsonObject = {}
        self.usage: importers.JsonObject = {}

    def __bool__(self) -> bool:
        return bool(self._blocks or self.finish)

    @property
    def blocks(self) -> list[importers.JsonObject]:
        """The blocks in order, without calls that have no name yet."""
        found = (self._blocks[index] for index in sorted(self._blocks))
        return [block for block in found if block.get("text") or block.get("name")]

    def take_all(self, stream: Iterable[importers.JsonObject]) -> Attempt:
        """Take a whole stream, as an event holds it, and return the attempt."""
        for item in stream:
            if item.get("type") == "chunk":
                self.take(importers.as_dict(item.get("chunk")))
            else:
                self.take_packed(importers.as_str(item.get("type")), item)
        return self

    def take(self, chunk: importers.JsonObject) -> None:
        """Take one chunk."""
        index, kind = importers.as_int(chunk.get("index")), importers.as_str(chunk.get("type"))
        if kind in _DELTAS:
            self._add(index, _DELTAS[kind], "text", importers.as_str(chunk.get("text")))
        elif kind == "tool-call-delta":
            self._call(index, chunk, importers.as_str(chunk.get("argumentsDelta")))
        elif kind == "block-end" and isinstance(chunk.get("block"), dict):
            self._blocks[index] = chunk["block"]
        elif kind == "usage":
            self.usage = importers.as_dict(chunk.get("usage"))
        elif kind == "finish":
            self.finish = importers.as_dict(chunk.get("reason"))

    def take_packed(self, kind: str, row: importers.JsonObject) -> None:
        """Take a row of several chunks of one block."""
        index = importers.as_int(row.get("index"))
        if kind in _PACKED:
            self._add(
                index,
                _PACKED[kind],
                "text",
                "".join(map(importers.as_str, importers.as_list(row.get("texts")))),
            )
        elif kind == "tool-call-chunks":
            self._call(index, row, "".join(map(importers.as_str, importers.as_list(row.get("args")))))

    def _call(self, index: int, fields: importers.JsonObject, arguments: str) -> None:
        block = self._add(index, "tool-call", "arguments", arguments)
        block.update({name: fields[name] for name in ("id", "name") if importers.as_str(fields.get(name))})

    def _add(self, index: int, kind: str, field: str, words: str) -> importers.JsonObject:
        block = self._blocks.setdefault(index, {"type": kind, field: ""})
        block[field] = importers.as_str(block.get(field)) + words
        return block
