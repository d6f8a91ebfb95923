"""Relay of a tap: the process between clients and their provider.

It forwards bytes and journals copies. Its configuration comes as JSON on stdin, since the list of processes
must not show the token or a password.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from traceback import extract_tb
from typing import Any

from pydantic_core import from_json

from stenolog.apps.servers.limits import ACCEPTED_AT_ONCE, BACKLOG, Door
from stenolog.apps.tap.journal_writer import JournalWriter
from stenolog.apps.tap.upstreams import Upstream

from .connecting import tls_context
from .connections import ClientConnection
from .copies import Recording, Redact
from .guard import Guard


@dataclass(frozen=True)
class RelayConfig:
    """Configuration of a relay. `listener`, `alive` and `notify` are inherited descriptors."""

    folder: str
    run: str
    generation: int
    token: str
    host: str
    port: int
    upstreams: dict[str, Upstream]
    listener: int
    alive: int
    notify: int
    waits: bool = True
    redacts: bool = False


def main() -> None:
    """Relay until the tap ends."""
    values: dict[str, Any] = from_json(sys.stdin.buffer.read())
    values["upstreams"] = {name: Upstream(**value) for name, value in values["upstreams"].items()}
    asyncio.run(_relay(RelayConfig(**values)))


async def _relay(config: RelayConfig) -> None:
    writer = JournalWriter(Path(config.folder), config.generation, config.notify)
    recording = Recording(writer, config.run, config.generation << 32, config.waits, redact=_redact(config))
    guard = Guard(config.token, config.upstreams, config.host, config.port)
    connections: set[ClientConnection] = set()
    loop = asyncio.get_running_loop()
    door = Door(files_each=2)
    loop.set_exception_handler(partial(_failed, door))
    bound = socket.socket(fileno=config.listener)
    server = await loop.create_server(
        lambda: ClientConnection(recording, guard, connections, door), sock=bound, backlog=ACCEPTED_AT_ONCE
    )
    bound.listen(BACKLOG)
    if any(upstream.scheme == "https" for upstream in config.upstreams.values()):
        loop.call_soon(tls_context)
    gc.freeze()  # what was imported need not be looked through again
    await _end_of_tap(loop, config.alive)
    server.close()
    for connection in list(connections):
        connection.stop()
    await recording.redacting_done()
    recording.flush()
    await loop.run_in_executor(None, writer.close)


def _failed(door: Door, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Say where the relay failed, not the error's message: it may quote the wire."""
    if door.noted(context):
        return
    error = context.get("exception")
    places = [f"{each.filename}:{each.lineno}" for each in extract_tb(error.__traceback__ if error else None)]
    print(f"{context['message']}: {type(error).__name__} at {', '.join(places)}", file=sys.stderr, flush=True)


def _redact(config: RelayConfig) -> Redact | None:
    if not config.redacts:
        return None
    # Late: only a tap that redacts needs it.
    from stenolog.apps.tap.exchanges.redaction import redacted_content

    return redacted_content


async def _end_of_tap(loop: asyncio.AbstractEventLoop, alive: int) -> None:
    """Wait until the supervisor asks for the end, or is gone."""
    ended = asyncio.Event()
    # Nothing is written to this pipe: it becomes readable when its other end closes with the supervisor.
    loop.add_reader(alive, ended.set)
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    loop.remove_reader(alive)


if __name__ == "__main__":
    main()
