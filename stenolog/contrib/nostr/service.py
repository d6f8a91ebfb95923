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
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from stenolog import Entry, Log, Settings
from stenolog.chats import Backoff, ChatSession, Delivery, OutgoingMessage, backoff
from stenolog.engine import OnInput, Team
from stenolog.errors import CallerError, OperationalError

from .events import MESSAGES, PROFILE, checker, event_of
from .incoming import Incoming
from .outgoing import received
from .participants import public_key
from .relay import Relay
from .signing import USER, signers

LOGGER = logging.getLogger("stenolog.chats")
TO_US, THREADS, PROFILES = "to-us", "threads", "profiles"
ANYBODY = "*"
RETRY_SECONDS = 1.0
"""The pause before events are taken again where the log was busy."""


class NostrRelay:
    """A team on a relay (NIP-01): it answers events that name its agents' keys, and its answers go there.

    `keys` are secret keys by the names of agents, or the path of a JSON file of them; `user` is the key of
    the log's own user. `people` are the public keys of those who are heard (persons, and agents elsewhere),
    or `"*"`; others get no answer, and leave no trace. `conversations` are names of conversations of the log
    that go to the relay, too. Raises `CallerError` and `MissingExtraError`.
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
        """Return the conversations that belong to the relay: root and name."""
        found = {root: name for name in self.log.names() if (root := self._incoming.root_of(self.log[name]))}
        for name in self._named:
            begun = self._incoming.begun(self.log[name])
            if begun is None:
                raise CallerError(f"conversations: {name!r}: expected one that begins with words of a key")
            found[begun] = name
        return found

    async def _open(self, rooms: AsyncExitStack, root: str, name: str) -> None:
        """Work on a conversation from now on, and send what it says."""
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
        """Return one piece for each entry that may go out."""
        text = getattr(entry.event, "text", "")
        return [text] if text.strip() or received(entry) else []

    async def _send(self, root: str, position: int) -> None:
        """Publish the event of an entry, if it has one that the relay lacks."""
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

    def _receive(self, id: str, told: Any) -> None:
        """Take what the relay says; events of people who are not heard are passed over."""
        if told is None:
            self._complete.add(id)
        else:
            try:
                event = event_of(told)
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
        """Append new events whenever the relay has told all that belongs to their conversation."""
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
        """Publish a profile with the name of each agent here that has none on the relay."""
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
        """Ask for the events of conversations, and the profiles of authors, that have become known."""
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
    """Make the chat channel `nostr`; `keys` is the path of a JSON file. Raises as `NostrRelay`."""
    return NostrRelay(team, log, relay=relay, keys=keys, people=people, conversations=conversations or ())
