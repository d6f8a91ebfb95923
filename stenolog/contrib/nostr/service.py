"""A relay as a chat channel: people and other agents speak there, and a team here answers.

    channel = NostrRelay(team, log, relay="wss://relay.example", keys="keys.json", people=["npub1…"])
    async with team:
        await channel.serve()

Each conversation is that of one root event, and is named by its id. Everything can be killed anywhere: an
event is appended under its own id, and an answer has the same id whenever it is sent.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

from stenolog import Entry, Log, Settings
from stenolog.chats import Backoff, ChatSession, Delivery, OutgoingMessage, backoff
from stenolog.engine import OnInput, Team
from stenolog.errors import CallerError, MissingExtraError, OperationalError
from stenolog.importers import compact_json

from .events import MESSAGES, PROFILE, NostrEvent, as_json, checker, event_of
from .incoming import Incoming
from .outgoing import USER, received, signers
from .participants import public_key

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
    """A relay at a `ws://` or `wss://` address. `run` keeps the connection until cancelled."""

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
        """Request stored and new events, replacing the id's subscription."""
        self._filters[id] = filters
        if self._socket is not None:
            await self._send(self._socket, ["REQ", id, *filters])

    async def publish(self, event: NostrEvent) -> None:
        """Send an event; return once the relay has it.

        Raises `OSError` if it may work later, `ValueError` with the relay's words if refused.
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


TO_US, THREADS, PROFILES = "to-us", "threads", "profiles"
ANYBODY = "*"
RETRY_SECONDS = 1.0
"""The pause before events are taken again after the log was busy."""


class NostrRelay:
    """A team on a relay (NIP-01): it answers events that name its agents' keys, on that relay.

    `keys` are secret keys by agent name, or the path of a JSON file; its key named `user` is that of the
    log's own user. `people` are the public keys of accepted persons and agents, or `"*"`; others get no
    answer and leave no trace. `conversations` are logged ones that go to the relay too. Raises `CallerError`
    and `MissingExtraError`.
    """

    def __init__(
        self,
        team: Team,
        log: Log,
        *,
        relay: str,
        keys: Mapping[str, str] | str | os.PathLike[str],
        people: str | Iterable[str],
        conversations: str | Iterable[str] = (),
        on_input: OnInput = "next",
        backoff: Backoff = backoff,
    ) -> None:
        self.team, self.log = team, log
        self._signers = signers(keys)
        if not self._signers.keys() & team.agents.keys():
            raise CallerError(f"keys: expected those of agents of the team ({', '.join(team.agents)})")
        self._own = {signer.pubkey: name for name, signer in self._signers.items()}
        given = [people] if isinstance(people, str) else [*people]
        self._people = (
            None if ANYBODY in given else {*(public_key(key, "people") for key in given), *self._own}
        )
        self._named = [conversations] if isinstance(conversations, str) else [*conversations]
        if missing := [name for name in self._named if name not in log]:
            raise CallerError(f"conversations: {missing[0]!r}: no such conversation")
        self._on_input = on_input
        self._backoff = backoff
        self._is_signed = checker()
        self._relay = Relay(relay, self._receive, backoff)
        self._incoming = Incoming(log, relay, self._signers)
        self._sessions: dict[str, ChatSession] = {}
        self._there: set[str] = set()
        """The ids of events that the relay has."""
        self._complete: set[str] = set()
        """The subscriptions whose stored events have all come, since they were asked for."""
        self._news = asyncio.Event()
        self._authors: set[str] = set()
        self._introduced = {key for key, name in self._own.items() if name == USER}
        """The keys whose owners have a profile, as far as is known."""

    async def serve(self) -> None:
        """Receive, work and send until cancelled."""
        async with AsyncExitStack() as rooms:
            for root, name in (await asyncio.to_thread(self._conversations)).items():
                await self._open(rooms, root, name)
            agents = [key for key, name in self._own.items() if name != USER]
            await self._relay.subscribe(TO_US, {"kinds": [*MESSAGES], "#p": agents})
            await self._ask_for_threads()
            async with asyncio.TaskGroup() as works:
                works.create_task(self._relay.run())
                works.create_task(self._take_news(rooms))

    def _conversations(self) -> dict[str, str]:
        found = {root: name for name in self.log.names() if (root := self._incoming.root_of(self.log[name]))}
        for name in self._named:
            begun = self._incoming.begun(self.log[name])
            if begun is None:
                raise CallerError(f"conversations: {name!r}: expected one that begins with words of a key")
            found[begun] = name
        return found

    async def _open(self, rooms: AsyncExitStack, root: str, name: str) -> None:
        conversation = self.log[name]
        self._incoming.conversations[root] = conversation

        async def send(message: OutgoingMessage) -> None:
            await self._send(root, message.position)

        delivery = Delivery(
            conversation, f"nostr:{self._relay.url}", send, render=self._render, backoff=self._backoff
        )
        session = ChatSession(self.team, delivery, on_input=self._on_input)
        self._sessions[root] = session
        await rooms.enter_async_context(session.open())

    def _render(self, entry: Entry, settings: Settings) -> list[str]:
        text = getattr(entry.event, "text", "")
        return [text] if text.strip() or received(entry) else []

    async def _send(self, root: str, position: int) -> None:
        if TO_US not in self._complete or THREADS not in self._complete:
            raise ConnectionError("the relay has not told yet what it has")
        event = await asyncio.to_thread(self._incoming.event_at, root, position)
        if event is None or event.id in self._there:
            return
        try:
            await self._relay.publish(event)
        except TimeoutError:
            raise ConnectionError("the relay has not answered") from None
        except ValueError as error:
            LOGGER.warning("%s: refuses event %s…: %s", self._relay.url, event.id[:8], error)
        self._there.add(event.id)

    def _receive(self, id: str, value: Any) -> None:
        """Queue the relay's events; ignore those of people who are not accepted."""
        if value is None:
            self._complete.add(id)
        else:
            try:
                event = event_of(value)
            except ValueError:
                return
            if self._people is not None and event.pubkey not in self._people:
                return
            if event.kind not in (*MESSAGES, PROFILE) or not self._is_signed(event):
                return
            if event.kind == PROFILE:
                self._introduced.add(event.pubkey)
            else:
                self._there.add(event.id)
            self._incoming.add(event)
        self._news.set()

    async def _take_news(self, rooms: AsyncExitStack) -> None:
        """Append new events once the relay has sent all of their conversation."""
        while True:
            await self._news.wait()
            self._news.clear()
            if TO_US not in self._complete:
                continue
            await self._ask_for_threads()
            if not {THREADS, PROFILES} <= self._complete:
                continue
            await self._introduce()
            try:
                appended = await asyncio.to_thread(self._incoming.append)
            except OperationalError as error:
                LOGGER.warning("%s; it is tried again", error)
                await asyncio.sleep(RETRY_SECONDS)
                self._news.set()
                continue
            for root, name in appended.items():
                if root not in self._sessions:
                    await self._open(rooms, root, name)
                self._sessions[root].wake()

    async def _introduce(self) -> None:
        for name, signer in self._signers.items():
            if signer.pubkey in self._introduced:
                continue
            self._introduced.add(signer.pubkey)
            content = json.dumps({"name": name, "bot": True}, ensure_ascii=False)
            profile = signer.signed(int(time.time()), PROFILE, [["bot"]], content)
            try:
                await self._relay.publish(profile)
            except (OSError, ValueError) as error:  # its words are signed all the same
                LOGGER.warning("%s: no profile of %s: %s", self._relay.url, name, error)

    async def _ask_for_threads(self) -> None:
        """Request events of new conversations and profiles of new authors."""
        if roots := self._incoming.new_roots():
            self._complete.discard(THREADS)
            about = {"kinds": [*MESSAGES]}
            await self._subscribe(THREADS, {"ids": roots}, {**about, "#E": roots}, {**about, "#e": roots})
        elif not self._incoming.roots:
            self._complete.add(THREADS)
        authors = self._incoming.authors | self._own.keys()
        if authors - self._authors:
            self._authors = authors
            self._complete.discard(PROFILES)
            await self._subscribe(PROFILES, {"kinds": [PROFILE], "authors": sorted(authors)})

    async def _subscribe(self, id: str, *filters: Mapping[str, Any]) -> None:
        try:
            await self._relay.subscribe(id, *filters)
        except OSError as error:  # the next connection asks for it
            LOGGER.info("%s: %s", self._relay.url, error)


def channel(
    team: Team,
    log: Log,
    *,
    relay: str,
    keys: str,
    people: str | list[str],
    conversations: str | list[str] = "",
) -> NostrRelay:
    """Return the chat channel `nostr`; `keys` is the path of a JSON file. Raises as `NostrRelay`."""
    return NostrRelay(team, log, relay=relay, keys=keys, people=people, conversations=conversations or ())
