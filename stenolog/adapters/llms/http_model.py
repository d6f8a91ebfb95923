"""A model asked over HTTP through its provider's SDK: the loop that reads its stream."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from typing import Any, Protocol

from stenolog.adapters.providers.errors import hiding
from stenolog.adapters.providers.json_fields import Json
from stenolog.domain.errors import ModelError
from stenolog.domain.json_types import clean
from stenolog.domain.values import Usage

from .base import Model, ModelCall, ModelResponse, Progress, ResponseDelta, StreamItem
from .clients import Clients


class ResponseReader(Protocol):
    """Makes an answer of the events of one stream.

    `usage` is what the provider has counted so far, None before its first count; `model` is the name that it
    gives the model.
    """

    model: str
    usage: Usage | None

    def read(self, event: Json) -> Iterable[ResponseDelta]:
        """Return what an event adds to the answer. Raises `ModelError` for an event that is an error."""

    def answer(self) -> ModelResponse:
        """Return the whole answer after the last event. Raises `ModelError` if there is none."""


class HttpModel(Model):
    """A model that is asked over HTTP, by the clients of its provider's SDK."""

    _clients: Clients[Any]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @abstractmethod
    def reading(self) -> ResponseReader:
        """Return a reader for the events of one stream."""

    @abstractmethod
    def _events(self, prompt: ModelCall, secrets: list[str]) -> AsyncGenerator[Json, None]:
        """Yield the events of one stream as plain JSON. Adds the client's keys to `secrets`.

        Raises `ModelError` for any error of the SDK.
        """

    async def stream(self, prompt: ModelCall) -> AsyncGenerator[StreamItem, None]:
        """Yield the answer in pieces, with the usage as the provider counts it, then the whole answer.

        Raises `ModelError`, without the client's keys in its message.
        """
        reading, secrets = self.reading(), list[str]()
        with hiding(secrets):
            async with aclosing(self._events(prompt, secrets)) as events:
                async for event in events:
                    for piece in _read(reading, event):
                        yield piece
            yield reading.answer()

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        await self._clients.close()


def _read(reading: ResponseReader, event: Json) -> Iterator[ResponseDelta | Progress]:
    """Yield what an event adds to the answer, and the usage if the event changes it.

    Raises `ModelError` for an event that is an error. Its usage is yielded before.
    """
    before = reading.usage
    try:
        yield from reading.read(event)
    except ModelError:
        yield from _counted(reading, before)
        raise
    yield from _counted(reading, before)


def _counted(reading: ResponseReader, before: Usage | None) -> Iterator[Progress]:
    if reading.usage is not None and reading.usage != before:
        yield Progress(model=clean(reading.model), usage=reading.usage)
