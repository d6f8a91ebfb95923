"""Events for programs that call the providers' SDKs themselves: an answer, a stream or an exception as one.

request = conversation.request("coder")
answer = answer_from(client.chat.completions.create(**request.body), request)
conversation.append(answer)
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar

from stenolog.adapters.providers.errors import connection_error, hiding, redact
from stenolog.domain.errors import CallerError, ModelError
from stenolog.domain.events import AssistantMessage, ErrorCategory, LlmError
from stenolog.domain.parts import AssistantPart, TextPart, ToolCall, text_of
from stenolog.projections.formats import FORMATS, providers
from stenolog.projections.formats.deltas import ModelResponse, ResponseDelta, drafted_parts
from stenolog.projections.formats.streaming import StreamReader
from stenolog.projections.messages.json_fields import as_dict
from stenolog.projections.requests import Request

from .base import MODELS
from .http_model import SdkModel
from .sdk_answers import answer_of, as_json, reader_of

C = TypeVar("C")
AZURE = "api-key: "


class Retries(Protocol):
    """The waits between attempts: a `stenolog.engine.RetryPolicy`, by what is needed of it here."""

    def wait(
        self, category: ErrorCategory, attempt: int, chance: float, retry_after: float | None = None
    ) -> float | None:
        """Return the seconds to wait after a failed attempt; None: it is not retried."""


def answer_from(
    answer: object, request: Request | None = None, *, agent: str = "", task: str = ""
) -> AssistantMessage:
    """Return the event of a provider's answer: its parts, its usage, its finish reason, its model.

    `answer` is what the SDK of OpenAI (Chat Completions or Responses), Anthropic or Google returns, or its
    JSON. With the `request` that was sent, the event has its receipt, so that `check log --requests` proves
    it; without one, `agent` says who answers.

    Raises `ModelError` for an answer with nothing in it, which `error_from` takes, and `CallerError`.
    """
    return _answer(answer_of(answer), _lane(request, agent, task), request)


def error_from(
    error: BaseException,
    request: Request | None = None,
    *,
    agent: str = "",
    task: str = "",
    text: str = "",
    attempt: int = 1,
    retries: Retries | None = None,
) -> LlmError:
    """Return the event of a call that failed, by the exception that the provider's SDK raised.

    `text` is what had arrived of the answer; `attempt` counts the failures in a row, of which
    `conversation.state().lane(agent).attempt` has those before. Its message has no keys. With `retries`, a
    `RetryPolicy`, the event's `retry_at` is the time of the next attempt, not before the provider's
    `retry-after`; the same request is sent again then, without what had arrived.
    Raises `CallerError` where neither `request` nor `agent` says whose call it was.
    """
    said = (TextPart(text=text),) if text else ()
    return _failure(error, said, attempt, retries, _lane(request, agent, task))


class Recording(Generic[C]):
    """A stream that is passed on chunk by chunk, and the answer that it adds up to.

    Iterate it, with `for` or `async for`, in place of the stream. Then `answer()` is the event to append; if
    the stream raised an exception, `error(exception)` is, with what had arrived. `text` is the text so far.
    """

    def __init__(
        self,
        stream: Iterable[C] | AsyncIterable[C],
        lane: dict[str, Any],
        request: Request | None = None,
        keep: Callable[[Sequence[ResponseDelta]], object] = lambda pieces: None,
    ) -> None:
        self._stream = stream
        self._lane = lane
        self._request = request
        self._keep = keep
        self._reader: StreamReader | None = None
        self._said: list[ResponseDelta] = []

    def __iter__(self) -> Iterator[C]:
        if not isinstance(self._stream, Iterable):
            raise CallerError(f"expected a stream for `for`, found {self._stream!r:.100}: use `async for`")
        for chunk in self._stream:
            self._take(chunk)
            yield chunk

    async def __aiter__(self) -> AsyncIterator[C]:
        if not isinstance(self._stream, AsyncIterable):
            raise CallerError(f"expected a stream for `async for`, found {self._stream!r:.100}: use `for`")
        async for chunk in self._stream:
            self._take(chunk)
            yield chunk

    @property
    def text(self) -> str:
        """The text that has arrived so far."""
        return text_of(drafted_parts(self._said))

    def answer(self) -> AssistantMessage:
        """Return the event of the whole answer. Raises `ModelError` if the stream has not ended."""
        if self._reader is None:
            raise ModelError("invalid_response", "the stream ended before its first chunk")
        with hiding(()):
            answer = self._reader.answer()
        return _answer(answer, self._lane, self._request)

    def error(self, error: BaseException, *, attempt: int = 1, retries: Retries | None = None) -> LlmError:
        """Return the event of a stream that failed, with all that had arrived; see `error_from`."""
        return _failure(error, drafted_parts(self._said), attempt, retries, self._lane)

    def _take(self, chunk: C) -> None:
        event = as_json(chunk)
        # An event of `client.chat.completions.stream()` wraps the chunk itself.
        if event.get("type") == "chunk":
            event = as_dict(event.get("chunk"))
        if self._reader is None:
            # By the first event: until then the provider is not known.
            self._reader = reader_of(event)
        with hiding(()):
            pieces = list(self._reader.read(event))
        self._said.extend(pieces)
        self._keep(pieces)


def recording(
    stream: Iterable[C] | AsyncIterable[C],
    request: Request | None = None,
    *,
    agent: str = "",
    task: str = "",
    keep: Callable[[Sequence[ResponseDelta]], object] = lambda pieces: None,
) -> Recording[C]:
    """Return a stream of an SDK that passes each chunk on and gives the event in the end; see `Recording`.

    `request` and `agent` are those of `answer_from`; `keep` is called with the pieces of each chunk.
    """
    return Recording(stream, _lane(request, agent, task), request, keep)


def _lane(request: Request | None, agent: str, task: str) -> dict[str, Any]:
    """Return the fields that say whose call it was. Raises `CallerError`."""
    if request is not None:
        return {"agent": agent or request.agent, "task": task or request.task, "receipt": request.receipt}
    if not agent:
        raise CallerError("expected the request that was sent, or agent=, found neither")
    return {"agent": agent, "task": task}


def _answer(answer: ModelResponse, lane: dict[str, Any], request: Request | None) -> AssistantMessage:
    event = AssistantMessage(
        parts=answer.parts,
        model=answer.model,
        finish_reason=answer.finish_reason,
        usage=answer.usage,
        **lane,
    )
    return event if request is None else with_own_names(event, request.tool_names)


def with_own_names(answer: AssistantMessage, names: Mapping[str, str]) -> AssistantMessage:
    """Return the answer with the names on the card for those that were sent; see `Request.tool_names`."""
    if not any(call.name in names for call in answer.tool_calls):
        return answer
    return replace(answer, parts=tuple([_with_own_name(part, names) for part in answer.parts]))


def _with_own_name(part: AssistantPart, names: Mapping[str, str]) -> AssistantPart:
    """Return a call by its tool's name on the card, if another was sent in its place."""
    if not isinstance(part, ToolCall) or part.namespace or part.name not in names:
        return part
    return replace(part, name=names[part.name])


def _failure(
    error: BaseException,
    parts: tuple[AssistantPart, ...],
    attempt: int,
    retries: Retries | None,
    lane: dict[str, Any],
) -> LlmError:
    failed = model_error(error)
    fields: dict[str, Any] = {"category": failed.category, "message": failed.message}
    event = LlmError(parts=parts, attempt=attempt, **fields, **lane)
    if retries is None:
        return event
    wait = retries.wait(event.category, attempt, random.random(), failed.retry_after)
    return event if wait is None else replace(event, retry_at=datetime.now(UTC) + timedelta(seconds=wait))


def model_error(error: BaseException) -> ModelError:
    """Return the engine's error for an exception of a provider's SDK, or of the connection, without keys."""
    secrets = [*_keys_of(error)]
    if isinstance(error, ModelError):
        return error
    if isinstance(error, KeyboardInterrupt | asyncio.CancelledError):
        return ModelError("cancelled", redact(str(error), secrets) or "stopped")
    if isinstance(error, Exception):
        # By the names of modules, so that no SDK is imported that the program does not use.
        made_by = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
        if client := _client_of(made_by):
            return client.failed(error, secrets)
        if not made_by.isdisjoint(("httpx", "httpx2")):
            return connection_error(error, secrets)
    words = redact(f"{type(error).__name__}: {error}", secrets)
    is_late, is_network = isinstance(error, TimeoutError), isinstance(error, OSError)
    return ModelError("timeout" if is_late else "network" if is_network else "other", words)


def _keys_of(error: BaseException) -> Iterator[str]:
    try:
        sent = getattr(error, "request", None) or getattr(getattr(error, "response", None), "request", None)
    # httpx raises it where an exception has no request.
    except RuntimeError:
        return
    headers = getattr(sent, "headers", None) or {}
    for header in (AZURE, *(provider.key_header for _, provider in providers())):
        name, _, before = header.partition(": ")
        yield from filter(None, [str(headers.get(name, "")).removeprefix(before)])


def _client_of(modules: Set[str]) -> type[SdkModel] | None:
    known = ((name, format.endpoint) for name, format in FORMATS.items() if format.endpoint)
    api = next((name for name, endpoint in known if endpoint.sdk.module in modules), None)
    made = (MODELS[kind] for kind in MODELS if api)
    clients = (each for each in made if isinstance(each, type) and issubclass(each, SdkModel))
    return next((each for each in clients if each.api == api), None)
