"""Answers of providers, read from recorded bytes: whole, or an error with all that had arrived."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

from stenolog.adapters.providers.errors import redact, reported
from stenolog.apps.views.figures import counted
from stenolog.domain.errors import ModelError
from stenolog.domain.events import ErrorCategory
from stenolog.domain.parts import AssistantPart
from stenolog.projections.formats import stream_of
from stenolog.projections.formats.deltas import ModelResponse, ResponseDelta, drafted_parts
from stenolog.projections.formats.streaming import StreamReader
from stenolog.projections.messages.json_fields import Json, as_dict, as_int

from .exchange import Answered, RecordedExchange, decoded
from .secrets import redacted

REASONS: dict[str, ErrorCategory] = {
    "client-closed": "cancelled",
    "relay-stopped": "process_exited",
    "tap-ended": "process_exited",
    "not-recorded": "other",
    "upstream-closed": "network",
}
"""The category of an answer that ended early, by the reason of its end."""
EARLY = "the answer ended early"
DONE = "[DONE]"


def answer_of(api: str, exchange: RecordedExchange) -> Answered:
    """Return the outcome of an exchange that has ended, or never will."""
    try:
        content = decoded(bytes(exchange.answer), exchange.answer_headers.get("content-encoding", ""))
    except ValueError as error:
        return Answered((), failure=ModelError("invalid_response", str(error)))
    if not exchange.status:
        return Answered((), failure=_failure(exchange.reason or "upstream-closed"))
    if exchange.status >= 400:
        return Answered((), failure=_refusal(api, exchange, content))
    kind = exchange.answer_headers.get("content-type", "")
    if "event-stream" in kind or content.lstrip().startswith((b"event:", b"data:")):
        read = [(text, [*_json_of(text)]) for text in _sse_data(content)]
        broken = sum(not found and text.strip() != DONE for text, found in read)
        answered = _of_events(api, [event for _, found in read for event in found], exchange.reason)
        return answered._replace(unread=counted(broken, "broken event")) if broken else answered
    return _of_document(api, content, exchange.reason)


def _failure(reason: str) -> ModelError:
    named, _, words = reason.partition(": ")
    return ModelError(REASONS.get(named, "network"), redact(f"{EARLY}: {words or named}"))


def _refusal(api: str, exchange: RecordedExchange, content: bytes) -> ModelError:
    text = content.decode("utf-8", "replace")
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    return reported(stream_of(api).failure(given or text, exchange.status), exchange.answer_headers)


def sse_events(content: bytes) -> Iterator[Json]:
    """Yield each whole event's JSON, without comments, pings and `[DONE]`."""
    for text in _sse_data(content):
        yield from _json_of(text)


def _sse_data(content: bytes) -> Iterator[str]:
    text = content.decode("utf-8", "replace").removeprefix("\ufeff")
    data: list[str] = []
    # Not `splitlines`: it would break lines at characters that JSON may hold.
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if line:
            name, _, value = line.partition(":")
            if name == "data":
                data.append(value.removeprefix(" "))
            continue
        if data:
            yield "\n".join(data)
            data = []


def _json_of(text: str) -> Iterator[Json]:
    try:
        yield json.loads(text)
    except (ValueError, RecursionError):
        return


def _of_events(api: str, events: Iterable[Json], reason: str) -> Answered:
    reader, pieces = stream_of(api), list[ResponseDelta]()
    failure: ModelError | None = None
    try:
        for event in events:
            pieces.extend(reader.read(event))
        answer = reader.answer()
        if not reason or answer.finish_reason:
            return _complete(answer, reader)
    except ModelError as error:
        failure = reported(error)
    if reason:
        failure = _failure(reason)
    parts = drafted_parts(pieces)
    return Answered(parts, reader.model, "", reader.usage, reader.id, failure or _failure("upstream-closed"))


def _of_document(api: str, content: bytes, reason: str) -> Answered:
    if reason:
        return Answered((), failure=_failure(reason))
    try:
        given = json.loads(content)
    except (ValueError, RecursionError):
        return Answered((), failure=ModelError("invalid_response", "expected JSON, found something else"))
    # Gemini without `alt=sse` streams one list of chunks.
    if isinstance(given, list):
        return _of_events(api, given, reason)
    reader = stream_of(api)
    try:
        return _complete(reader.read_answer(given), reader)
    except ModelError as error:
        return Answered((), reader.model, id=reader.id, failure=reported(error))


def _complete(answer: ModelResponse, reader: StreamReader) -> Answered:
    unread = counted(reader.others, "further choice") if reader.others else ""
    return Answered(answer.parts, answer.model, answer.finish_reason, answer.usage, reader.id, unread=unread)


def counted_tokens(api: str, content: bytes) -> int | None:
    """Return the tokens in a token count's answer, or None."""
    try:
        given = as_dict(json.loads(content))
    except (ValueError, RecursionError):
        return None
    number = given.get(stream_of(api).counts)
    return as_int(number) if isinstance(number, int) else None


def without_secrets(answered: Answered) -> Answered:
    """Return an outcome with secrets removed from parts and error."""
    failure = answered.failure
    if failure is not None:
        failure = ModelError(failure.category, redacted(failure.message)[0], status=failure.status)
    return answered._replace(parts=tuple(map(_clean, answered.parts)), failure=failure)


def _clean(part: AssistantPart) -> AssistantPart:
    fields = {name: getattr(part, name) for name in ("text", "arguments", "raw") if hasattr(part, name)}
    changed = {name: new for name, text in fields.items() if (new := redacted(text)[0]) != text}
    return replace(part, **changed) if changed else part  # type: ignore[arg-type]
