"""A chat at the terminal: lines in, pieces out."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from io import TextIOWrapper
from typing import TextIO

from stenolog.adapters.conversation.aio import AsyncLog
from stenolog.adapters.conversation.log import Log
from stenolog.adapters.engine.team.team import Team
from stenolog.domain.errors import CallerError
from stenolog.domain.events import UserMessage

from .base import OutgoingMessage
from .commands import COMMANDS, Command, agents_by_name, mentioned, typed_command
from .delivery import Delivery
from .rendering import NO_NAMES, render_entry
from .session import ChatSession


class Console:
    """A conversation with a team at the terminal, with a chat's commands, mentions and delivery.

    `lines` are given messages or commands: each is said once, also over restarts, once all rests after the
    previous one. Without them stdin is read to its end. `names` are display names. `show` writes a piece, by
    default to stdout.
    """

    def __init__(
        self,
        team: Team,
        log: Log | AsyncLog,
        *,
        conversation: str = "console",
        lines: Iterable[str] | None = None,
        author: str = "",
        names: Mapping[str, str] = NO_NAMES,
        show: Callable[[str], object] | None = None,
        commands: Mapping[str, Command] = COMMANDS,
    ) -> None:
        self.team = team
        self.conversation = (log.sync if isinstance(log, AsyncLog) else log)[conversation]
        self.lines = lines
        self.author = author
        self.show = show or _on_terminal
        render = render_entry(names, heading="{name}: " if len(team.agents) > 1 else "")
        outlet = Delivery(self.conversation, f"console:{conversation}", self._send, render=render)
        self.room = ChatSession(team, outlet, commands=commands)
        self._serving: asyncio.Task[object] | None = None
        self._unread: BrokenPipeError | None = None

    async def serve(self) -> None:
        """Serve until the lines end and all is done and shown.

        Raises BrokenPipeError once nobody reads the output, as with `| head`.
        """
        self._serving, self._unread = asyncio.current_task(), None
        try:
            await self._serve()
        except asyncio.CancelledError:
            if self._unread:
                raise self._unread from None
            raise

    async def _serve(self) -> None:
        async with self.room.open():
            await self.room.drain()  # first what is unfinished
            if self.lines is None:
                async for line in _typed_lines(sys.stdin):
                    await self._take(line, "")
                    if not sys.stdin.isatty():
                        await self.room.drain()
            else:
                for nth, line in enumerate(self.lines, 1):
                    await self._take(line, f"console:{nth}")
                    await self.room.drain()
            await self.room.drain()

    async def _take(self, line: str, id: str) -> None:
        if command := typed_command(line):
            self.show(await self.room.run_command(command, id=id, author=self.author))
        elif line.strip():
            to = mentioned(line, agents_by_name(self.team.agents))
            try:
                await self.room.receive(UserMessage(text=line, author=self.author), to=to, id=id)
            except CallerError as error:
                self.show(f"✗ {error}")

    async def _send(self, piece: OutgoingMessage) -> None:
        """Show a piece. A closed pipe is not retried."""
        try:
            self.show(piece.text)
        except BrokenPipeError as error:
            assert self._serving, "a room is open while it is served"
            self._unread = error
            self._serving.cancel()
            raise asyncio.CancelledError from None


def _on_terminal(text: str) -> None:
    from stenolog.projections.terminal_text import safe  # late: it brings the command line along

    print(safe(text), flush=True)


async def _typed_lines(source: TextIO) -> AsyncIterator[str]:
    """Yield a stream's lines, read by a daemon thread."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[str] = asyncio.Queue()

    if isinstance(source, TextIOWrapper):
        source.reconfigure(errors="replace")  # one invalid byte is no reason to hear nothing more

    def read() -> None:
        with suppress(RuntimeError):  # all has ended before the lines did
            try:
                for line in iter(source.readline, ""):
                    loop.call_soon_threadsafe(queue.put_nowait, line)
            finally:
                loop.call_soon_threadsafe(queue.put_nowait, "")

    threading.Thread(target=read, name="stenolog-lines", daemon=True).start()
    while line := await queue.get():
        yield line.rstrip("\r\n")
