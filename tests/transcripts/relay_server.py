"""A small relay (NIP-01) for the tests: python relay_server.py PORT FILE keeps its events in a file.

It checks ids and signatures, stores each event once, answers filters by ids, kinds, authors and tags, and
sends new events to the subscriptions that they fit.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from stenolog.contrib.nostr.events import checker, event_of

Json = dict[str, Any]


class TestRelay:
    """The events of a relay, and its connections. `sent` counts the events that each was told to keep."""

    __test__ = False

    def __init__(self, file: Path | None = None, refuses: str = "") -> None:
        self.events: dict[str, Json] = {}
        self.received: list[str] = []
        self.refuses = refuses
        self.url = ""
        self._file = file
        self._is_signed = checker()
        self._open: dict[ServerConnection, dict[str, list[Json]]] = {}
        if file is not None and file.exists():
            self.events = {e["id"]: e for e in map(json.loads, file.read_text("utf-8").splitlines())}

    async def talk(self, socket: ServerConnection) -> None:
        """Answer one connection until it ends."""
        self._open[socket] = {}
        with suppress(ConnectionClosed):
            async for text in socket:
                match json.loads(text):
                    case ["REQ", str(id), *filters]:
                        self._open[socket][id] = filters
                        for event in [*self.events.values()]:
                            if fits(event, filters):
                                await send(socket, "EVENT", id, event)
                        await send(socket, "EOSE", id)
                    case ["EVENT", dict(event)]:
                        await self.take(socket, event)
                    case ["CLOSE", str(id)]:
                        self._open[socket].pop(id, None)
                    case other:
                        await send(socket, "NOTICE", f"unknown: {other!r:.80}")
        self._open.pop(socket, None)

    async def take(self, socket: ServerConnection, event: Json) -> None:
        """Take an event in, and tell everyone who asked for such."""
        self.received.append(event["id"])
        if self.refuses:
            await send(socket, "OK", event["id"], False, self.refuses)
        elif event["id"] in self.events:
            await send(socket, "OK", event["id"], True, "duplicate: already here")
        elif not self.is_valid(event):
            await send(socket, "OK", event["id"], False, "invalid: wrong id or signature")
        else:
            self.keep(event)
            await send(socket, "OK", event["id"], True, "")
            await self.tell(event)

    def keep(self, event: Json) -> None:
        self.events[event["id"]] = event
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(event) + "\n")

    def is_valid(self, event: Json) -> bool:
        try:
            return self._is_signed(event_of(event))
        except ValueError:
            return False

    async def tell(self, event: Json) -> None:
        for socket, subscriptions in [*self._open.items()]:
            for id, filters in [*subscriptions.items()]:
                if fits(event, filters):
                    with suppress(ConnectionClosed):
                        await send(socket, "EVENT", id, event)

    @property
    def connections(self) -> int:
        return len(self._open)

    async def drop_all(self) -> None:
        """Close every connection, as a relay that is restarted does."""
        for socket in [*self._open]:
            await socket.close()


def fits(event: Json, filters: list[Json]) -> bool:
    return any(all(fits_one(event, key, wanted) for key, wanted in each.items()) for each in filters)


def fits_one(event: Json, key: str, wanted: Any) -> bool:
    match key:
        case "ids":
            return event["id"] in wanted
        case "kinds":
            return event["kind"] in wanted
        case "authors":
            return event["pubkey"] in wanted
        case "since":
            return bool(event["created_at"] >= wanted)
        case _ if key.startswith("#"):
            return any(tag[0] == key[1:] and len(tag) > 1 and tag[1] in wanted for tag in event["tags"])
        case _:
            return True


async def send(socket: ServerConnection, *message: Any) -> None:
    await socket.send(json.dumps(message))


class RunningRelay:
    """A relay in a thread of its own; `put` gives it an event, as a person's client does."""

    def __init__(self, relay: TestRelay, loop: asyncio.AbstractEventLoop, server: Server) -> None:
        self.relay, self._loop, self._server = relay, loop, server
        self.url = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"

    def put(self, *events: Json) -> None:
        async def put() -> None:
            for event in events:
                assert self.relay.is_valid(event)
                self.relay.keep(event)
                await self.relay.tell(event)

        asyncio.run_coroutine_threadsafe(put(), self._loop).result(10)

    def drop_all(self) -> None:
        asyncio.run_coroutine_threadsafe(self.relay.drop_all(), self._loop).result(10)

    @property
    def events(self) -> list[Json]:
        return [*self.relay.events.values()]


@contextmanager
def running(file: Path | None = None, **options: Any) -> Iterator[RunningRelay]:
    """Run a relay until the block ends."""
    loop, made = asyncio.new_event_loop(), list[RunningRelay]()
    ready, relay = threading.Event(), TestRelay(file, **options)

    async def main() -> None:
        async with serve(relay.talk, "127.0.0.1", 0) as server:
            made.append(RunningRelay(relay, loop, server))
            ready.set()
            await stopped.wait()

    stopped = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(main()), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield made[0]
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(10)
        loop.close()


async def main(port: int, file: Path) -> None:
    async with serve(TestRelay(file).talk, "127.0.0.1", port) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))
