"""Base of models with a provider's SDK: an HTTP client for each event loop, and the loop over a stream."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from stenolog.adapters.providers.errors import hiding
from stenolog.domain.base.model import clean
from stenolog.domain.errors import MissingExtraError, ModelError
from stenolog.domain.values import Usage
from stenolog.projections.formats import format_of
from stenolog.projections.formats.deltas import ResponseDelta
from stenolog.projections.formats.streaming import StreamReader
from stenolog.projections.messages.json_fields import Json
from stenolog.projections.requests.transport import Outgoing

from .base import Model, ModelRequest, Progress, StreamItem, Timeouts
from .egress import unchanged

C = TypeVar("C")


class Clients(Generic[C]):
    """A client for each event loop, made at its first use; closed by `close` in that loop, or at its end."""

    def __init__(self, make: Callable[[], C], shut: Callable[[C], Awaitable[None]]) -> None:
        self._make = make
        self._shut = shut
        self._kept: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[AsyncGenerator[C, None], C]]
        self._kept = WeakKeyDictionary()

    async def get(self) -> C:
        """Return the client of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._kept:
            # A loop closes its asynchronous generators before it goes, and the client lives in one.
            living = self._live(loop)
            self._kept[loop] = living, await anext(living)
        return self._kept[loop][1]

    async def close(self) -> None:
        """Close the running loop's client; the next use makes a new one."""
        living, _ = self._kept.get(asyncio.get_running_loop(), (None, None))
        if living is not None:
            await living.aclose()

    async def _live(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[C, None]:
        client = self._make()
        try:
            yield client
        finally:
            del self._kept[loop]
            await self._shut(client)


class Diagnosis:
    """The last answer of each lane, by the provider's id, to compare the next request with its request."""

    MOST = 4_096

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str], str] = {}

    def before(self, prompt: ModelRequest) -> str | None:
        """Return the id of the lane's last answer, if known here."""
        return self._answers.get((prompt.conversation, prompt.lane))

    def note(self, prompt: ModelRequest, id: str) -> None:
        """Note the id of an answer; the oldest lanes are forgotten."""
        key = prompt.conversation, prompt.lane
        self._answers.pop(key, None)
        self._answers[key] = id
        if len(self._answers) > self.MOST:
            del self._answers[next(iter(self._answers))]


class HttpModel(Model):
    """A model that is asked over HTTP, by `clients`, one for each event loop."""

    clients: Clients[Any]
    diagnosis: Diagnosis | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @abstractmethod
    def reader(self) -> StreamReader:
        """Return a reader for the events of one stream."""

    @abstractmethod
    def events(self, prompt: ModelRequest, secrets: list[str]) -> AsyncGenerator[Outgoing | Json, None]:
        """Yield the bytes before they are sent, and the events of one stream as plain JSON.

        Adds the client's keys to `secrets`, and sends within `unchanged`. Raises `ModelError` for any error,
        as `provider_error` makes it.
        """

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        """Yield the answer in pieces, with the usage as the provider counts it, then the whole answer.

        Raises `ModelError`, without the client's keys in its message.
        """
        reading, secrets = self.reader(), list[str]()
        # Filled in by `events` once the client is known.
        with hiding(secrets):
            # Closed at once where the caller leaves early: the connection must not wait for the garbage
            # collector.
            async with aclosing(self.events(prompt, secrets)) as events:
                async for event in events:
                    if isinstance(event, Outgoing):
                        yield event
                        continue
                    for piece in _read(reading, event):
                        yield piece
            answer = reading.answer()
            if self.diagnosis is not None and reading.id:
                self.diagnosis.note(prompt, reading.id)
            yield answer

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        await self.clients.close()


class Sending(NamedTuple):
    """A request before an SDK sends it: its bytes, its HTTP client, and what opens the answer."""

    outgoing: Outgoing
    http_client: object
    open: Callable[[], Awaitable[Any]]


class SdkModel(HttpModel):
    """A model that is asked through its provider's SDK."""

    def __init__(self, name: str, timeouts: Timeouts, client: Any = None) -> None:
        self.name = name
        self.timeouts = timeouts
        self.given = client

    @classmethod
    @contextmanager
    def importing(cls) -> Iterator[None]:
        """Import the SDK in this block. Raises `MissingExtraError`."""
        try:
            yield
        except ImportError:
            endpoint = format_of(cls.api).endpoint
            assert endpoint is not None
            raise MissingExtraError(endpoint.sdk.extra, endpoint.sdk.package) from None

    def made_by(self, sdk: Any, make: Callable[..., Any], options: Mapping[str, Any]) -> Clients[Any]:
        """Return clients that leave retries and timeouts to the engine, as one of the caller's does."""
        # The engine notes each attempt, and knows when the first token came; the SDK does so unseen.
        self.given = self.given and self.given.with_options(max_retries=0)
        given = {"timeout": sdk.Timeout(None, connect=self.timeouts.connect)} | {**options}
        return Clients(lambda: make(**given, max_retries=0), shut)

    @abstractmethod
    def keys(self, client: Any) -> Iterable[str | None]:
        """Return the secrets of a client."""

    @abstractmethod
    def sending(self, client: Any, prompt: ModelRequest) -> Sending:
        """Return the request as a client sends it; its answer is opened as events in plain JSON."""

    @staticmethod
    @abstractmethod
    def failed(error: Exception, secrets: Iterable[str] = ()) -> ModelError:
        """Return the `ModelError` for an exception of the SDK."""

    def does_without(self, error: Exception) -> bool:
        """Return whether to send a refused request again, now with fewer fields."""
        return False

    async def events(self, prompt: ModelRequest, secrets: list[str]) -> AsyncGenerator[Outgoing | Json, None]:
        opened: Any = None
        event = None
        try:
            client = self.given or await self.clients.get()
            # Noted before anything is sent, so that no error shows them.
            secrets += filter(None, self.keys(client))
            while opened is None:
                sending = self.sending(client, prompt)
                yield sending.outgoing
                try:
                    with unchanged(sending.http_client, sending.outgoing):
                        opened = await sending.open()
                except Exception as error:
                    if not self.does_without(error):
                        raise
            async with opened as events:
                async for event in events:
                    yield event
        except Exception as error:
            raise self.failed(error, secrets) from None
        # A server that answers with a page, or with plain JSON, gives no event and no error.
        if event is None:
            headers = getattr(getattr(opened, "response", None), "headers", {})
            what = f"expected a stream of events, found none in {headers.get('content-type', 'nothing'):.100}"
            raise ModelError("invalid_response", what)


async def shut(client: Any) -> None:
    """Close a client of an SDK."""
    await client.close()


def _read(reading: StreamReader, event: Json) -> Iterator[ResponseDelta | Progress]:
    """Yield an event's deltas, and the usage if it changes. Raises `ModelError` for an error event."""
    before = reading.usage
    try:
        yield from reading.read(event)
    except ModelError:
        # Before the error ends the call: a failed call keeps the tokens that were counted.
        yield from _counted(reading, before)
        raise
    yield from _counted(reading, before)


def _counted(reading: StreamReader, before: Usage | None) -> Iterator[Progress]:
    if reading.usage is not None and reading.usage != before:
        yield Progress(model=clean(reading.model), usage=reading.usage)
