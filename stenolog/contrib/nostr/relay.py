"""One relay (NIP-01): a connection that is made again whenever it breaks, subscriptions, and events sent."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from stenolog.chats import Backoff
from stenolog.errors import CallerError, MissingExtraError
from stenolog.importers import compact_json

from .events import NostrEvent, as_json

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

LOGGER = logging.getLogger("stenolog.chats")
PATIENCE = 20.0
"""Seconds for a relay to accept a connection, or an event."""
LARGEST = 8 * 1024 * 1024
"""The bytes of a message from a relay; a larger one breaks the connection."""
ACCEPTED_BEFORE = "duplicate:"
LATER = ("rate-limited:", "error:")
"""The reasons of a refusal that may not hold for long."""
Heard = Callable[[str, Any], None]
"""Called with a subscription's id and an event (unchecked), or None at the end of the stored ones."""


class Relay:
    """A relay at a `ws://` or `wss://` address. `run` keeps the connection, until it is cancelled."""

    def __init__(self, url: str, heard: Heard, backoff: Backoff) -> None:
        try:
            import websockets  # noqa: F401
        except ImportError:
            raise MissingExtraError("nostr", "websockets") from None
        if not url.startswith(("ws://", "wss://")):
            raise CallerError(f"relay: expected an address such as wss://relay.example, found {url!r:.80}")
        self.url = url
        self._heard = heard
        self._backoff = backoff
        self._socket: ClientConnection | None = None
        self._filters: dict[str, Sequence[Mapping[str, Any]]] = {}
        self._answers: dict[str, asyncio.Future[tuple[bool, str]]] = {}

    async def run(self) -> None:
        """Connect, and listen; again after every failure."""
        from websockets.asyncio.client import connect
        from websockets.exceptions import WebSocketException

        failures = 0
        while True:
            try:
                async with connect(self.url, open_timeout=PATIENCE, max_size=LARGEST) as socket:
                    failures = 0
                    await self._listen(socket)
                problem = "the relay has closed the connection"
            except (OSError, WebSocketException) as error:
                problem = str(error) or type(error).__name__
            failures += 1
            LOGGER.warning("%s: %s; it is tried again", self.url, problem)
            await asyncio.sleep(self._backoff(failures))

    async def subscribe(self, id: str, *filters: Mapping[str, Any]) -> None:
        """Ask for stored events and new ones, in the place of what the id stood for."""
        self._filters[id] = filters
        if self._socket is not None:
            await self._send(self._socket, ["REQ", id, *filters])

    async def publish(self, event: NostrEvent) -> None:
        """Send an event, and return once the relay has it.

        Raises `OSError` where it may work later, and `ValueError` with the relay's words where it is refused.
        """
        socket = self._socket
        if socket is None:
            raise ConnectionError("not connected")
        answer = self._answers.setdefault(event.id, asyncio.get_running_loop().create_future())
        try:
            await self._send(socket, ["EVENT", as_json(event)])
            async with asyncio.timeout(PATIENCE):
                is_taken, words = await asyncio.shield(answer)
        finally:
            self._answers.pop(event.id, None)
        if is_taken or words.startswith(ACCEPTED_BEFORE):
            return
        if words.startswith(LATER):
            raise ConnectionError(words)
        raise ValueError(words or "refused without a reason")

    async def _listen(self, socket: ClientConnection) -> None:
        self._socket = socket
        try:
            for id, filters in self._filters.items():
                await self._send(socket, ["REQ", id, *filters])
            async for text in socket:
                self._take(text)
        finally:
            self._socket = None
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(ConnectionError("the connection was closed"))
                    answer.exception()  # seen, also where no task waits for it any more

    def _take(self, text: str | bytes) -> None:
        """Take one message of the relay's; what is none is passed over."""
        message: Any = None
        with suppress(ValueError, RecursionError):
            message = json.loads(text)
        match message:
            case ["EVENT", str(id), dict(event)] if id in self._filters:
                self._heard(id, event)
            case ["EOSE", str(id)] if id in self._filters:
                self._heard(id, None)
            case ["OK", str(event), bool(is_taken), *rest]:
                waiting = self._answers.get(event)
                if waiting is not None and not waiting.done():
                    waiting.set_result((is_taken, str(rest[0]) if rest else ""))
            case ["CLOSED" | "NOTICE", *words]:
                LOGGER.warning("%s: %s", self.url, " ".join(map(str, words))[:500])
            case _:
                pass

    async def _send(self, socket: ClientConnection, message: list[Any]) -> None:
        from websockets.exceptions import WebSocketException

        try:
            await socket.send(compact_json(message))
        except WebSocketException as error:
            raise ConnectionError(str(error)) from None
