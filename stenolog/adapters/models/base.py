"""Interface of the engine to a model, which streams an answer or fails, and kinds of models by name.

A model of your own is a subclass of `Model` with `stream`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from stenolog.adapters.plugins import LazyRegistry
from stenolog.domain.errors import CallerError, ModelError
from stenolog.domain.events import AssistantMessage
from stenolog.domain.values import Usage
from stenolog.projections.formats import CLIENTS
from stenolog.projections.formats.base import Format
from stenolog.projections.formats.deltas import ModelResponse, ResponseDelta
from stenolog.projections.requests import DEFAULT_API
from stenolog.projections.requests.transport import Outgoing, Transport


class Progress(NamedTuple):
    """The state of a call before its end; it is recorded with the error if the call fails.

    Each replaces the one before. `session` is one that the next call can resume although this call failed;
    `process` identifies the process group at work (see `agents.groups`), to be ended if the engine dies. A
    model yields one when its provider has counted tokens, and may repeat it to show that it is alive.
    """

    session: str = ""
    model: str = ""
    usage: Usage | None = None
    process: str = ""


StreamItem: TypeAlias = Outgoing | ResponseDelta | Progress | ModelResponse
COMPACT = Transport()


class ModelRequest(NamedTuple):
    """One request on its way to a model.

    `body` is what the model's API made; `outgoing` gives it as bytes. `key` names this one attempt, by the
    log's head and the attempt's number: any other, also a repetition after a crash, has another key. `lane`
    is the address of the lane, `session` its session at a stateful backend.
    """

    body: dict[str, Any]
    key: str
    lane: str
    conversation: str
    session: str = ""

    def outgoing(self, transport: Transport = COMPACT) -> Outgoing:
        """Return the bytes to send: the body, with the transport's changes.

        A model yields them before it sends them. Raises `ModelError` for a body that cannot be written.
        """
        try:
            return Outgoing(transport.render(self.body), transport)
        except CallerError as error:
            raise ModelError("invalid_request", str(error)) from None


@dataclass(frozen=True)
class Timeouts:
    """Time limits of a model, in seconds; None: none.

    Until it is connected, until the first piece of the answer, between two pieces, and for the whole call.
    """

    connect: float | None = 10.0
    first_token: float | None = 120.0
    idle: float | None = 60.0
    total: float | None = 900.0


class Model(ABC):
    """Something that answers requests. One may serve many agents and conversations at the same time.

    `name` is the model's name on cards and in bodies; `provider` is who serves it; `api` is the form of its
    requests. `remembers`: it keeps what a lane was sent, so `lost` is asked. The engine keeps the
    `timeouts`; a model itself only `timeouts.connect`.
    `charges` says how its cost is known: by the price list, as its answers state it (`Usage.cost`), or
    "nothing": it costs nothing.
    """

    provider: ClassVar[str] = ""
    api: str | Format = DEFAULT_API
    remembers: bool = False
    name: str = ""
    timeouts: Timeouts = Timeouts()
    charges: Literal["listed", "stated", "nothing"] = "listed"

    @abstractmethod
    def stream(self, prompt: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        """Yield pieces of the answer as they come, and at the end the whole answer, once.

        Before each attempt, a model yields the `Outgoing` that it is about to send, and sends these bytes.
        The receipt of the answer holds their digest, and the engine may end the call instead of going on.

        Raises `ModelError`. Closing the iterator, or cancelling who waits for it, ends the call.
        """

    async def lost(self, lane: str, conversation: str, session: str) -> str:
        """Return the reason that a stateful backend has lost this lane's session; "" if it has it.

        Called for a backend that `remembers`, before a request is built.
        """
        return ""

    async def close(self) -> None:  # noqa: B027 - most have nothing to give back
        """Give back connections and processes; the model may be used again after."""


class RecordedModel(Model):
    """Recorded answers, in the order of the recording; they were judged when they were recorded."""

    @abstractmethod
    async def in_time(self, lane: str, at: int) -> bool:
        """Return whether a lane's request, built at the position `at`, shows all that its recorded one does.

        If not, wait until it can: then the request is to be built again.
        """

    @abstractmethod
    def appended(self, lane: str, at: int) -> None:
        """Note that a lane's last answer is being appended at a position; called in any thread."""

    @abstractmethod
    def edit(self, lane: str) -> AssistantMessage | None:
        """Return what a check put in place of a lane's last answer; None if nothing was recorded."""


MODELS: LazyRegistry[Callable[..., Model]] = LazyRegistry("a kind of model")
"""Classes and functions that make a model, by kind: called with the text after the colon. Their keyword-only
parameters are the options that a team file may give."""
KINDS: dict[str, str] = {}
"""The kind of model that speaks an API, by the API's name."""
# By reference, so that no SDK is imported before a model of its kind is wanted.
for _room, _client in CLIENTS.items():
    # A provider's first API has its name, and another one of its own.
    if _client:
        _kind = _client.partition(":")[0]
        _kind = _room.replace("_", "-") if _kind in MODELS else _kind
        KINDS[_room.replace("_", "-")] = _kind
        MODELS.add_reference(_kind, f"stenolog.adapters.models.{_client}")
for _kind, _reference in {
    "cli": "agents.command_line:CommandLine",
    "acp": "agents.acp:ACP",
    "scripted": "models.scripted:scripted",
}.items():
    MODELS.add_reference(_kind, f"stenolog.adapters.{_reference}")
