"""Child process in its own group, whose output never blocks it and whose end is never missed."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import secrets
import signal
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from subprocess import PIPE

from stenolog.domain.errors import ModelError

from . import groups
from .command import Command

IN, OUT, ERR = 0, 1, 2
READ_AHEAD = 1_000_000
"""So many bytes of output are held that were not read yet; the child waits to write more."""
LAST_WORDS, SHOWN = 16_000, 1_000
"""So many bytes of stderr are remembered, and so many characters shown: no half of a secret is among them."""
LINGER = 1.0
"""The seconds that others of the process group may go on writing once the process itself has ended."""
LAST_LINES = 3
_FAULT = re.compile(r"\s*(?:error|fatal|panic)\b", re.IGNORECASE)
"""A line of stderr that says what went wrong; usage hints may follow it."""


class Process(asyncio.SubprocessProtocol):
    """Running program, made by `launch`; await `stop`, unless it has ended.

    Output between `discard_output` and `resume_output` is dropped, so that it does not become part of an
    answer. Input is held in memory until the process reads it, so writing never waits.
    """

    def __init__(self, command: Command, mark: str) -> None:
        self.group = ""
        self._mark = mark
        self._command = command
        self._loop = asyncio.get_running_loop()
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self._listening = True  # from the start: it may speak before anybody has asked it to
        self._open = {IN, OUT, ERR}
        self._more = asyncio.Event()
        self._ended = asyncio.Event()
        self._closed = asyncio.Event()  # after its end: both outputs may have more in them until then
        self._errors = b""
        self._over = False

    @property
    def alive(self) -> bool:
        """True if the process runs on this event loop, with stdin and stdout open."""
        return not (self._loop.is_closed() or self._ended.is_set()) and {IN, OUT} <= self._open

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._pid

    @property
    def code(self) -> int | None:
        """Exit code, negative if a signal ended it; None while it runs."""
        return self._transport.get_returncode()

    @property
    def end(self) -> str:
        """Message on the process's end, with its last lines on stderr."""
        said = f": {words}" if (words := self.last_words) else ""
        return f"{self._command.name} {_ending(self.code)}{said}"

    @property
    def last_words(self) -> str:
        """Last lines on stderr, from the one that names a fault, if there is one."""
        text = without_escapes(self._command.hide(self._errors.decode("utf-8", "replace")))
        lines = text[-SHOWN:].strip().splitlines()
        fault = next((nth for nth, line in enumerate(lines) if _FAULT.match(line)), len(lines) - LAST_LINES)
        return " / ".join(lines[max(0, fault) :][:LAST_LINES])

    def write(self, data: bytes) -> None:
        """Write to its stdin; dropped if the process has ended."""
        if (pipe := self._stdin) is not None and not pipe.is_closing():
            pipe.write(data)

    def close_stdin(self) -> None:
        """Close its stdin, once it has read everything."""
        self._open.discard(IN)
        if (pipe := self._stdin) is not None and not pipe.is_closing():
            pipe.write_eof()

    def resume_output(self) -> None:
        """Keep its output from now on."""
        self._take_output()
        self._listening = True

    def discard_output(self) -> None:
        """Drop its output so far, and from now on."""
        self._listening = False
        self._take_output()

    async def read(self) -> bytes:
        """Wait for new output on stdout and return it; empty at the end."""
        while not self._chunks and OUT in self._open:
            self._more.clear()
            await self._more.wait()
        return self._take_output()

    async def ends(self, within: float) -> bool:
        """Return whether the process ends within so many seconds.

        If it does, the rest of its output is read, stderr too.
        """
        await self._wait(within, self._ended, self._closed)
        return self._ended.is_set()

    def signal(self, number: int) -> None:
        """Send a signal to the whole group, unless it has ended: the number may be another's by now."""
        if self._over:
            return
        with suppress(ProcessLookupError, PermissionError):  # none of it is left, or nothing of ours
            os.killpg(self._pid, number)

    def kill(self) -> None:
        """End the whole group at once."""
        self.signal(signal.SIGKILL)

    async def stop(self, patience: float, *, politely: bool = True) -> None:
        """Stop the process by closing its stdin (`politely`), else by SIGTERM, else by SIGKILL.

        Each step waits `patience` seconds. Then the rest of its process group is killed.
        """
        if self._loop.is_closed():
            self.kill()
            return
        self.discard_output()
        try:
            for step in (self.close_stdin, self._terminate, self.kill)[0 if politely else 1 :]:
                if not self._ended.is_set():
                    step()
                    await self._wait(patience, self._ended)
        finally:
            self._close()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport
        self._pid = transport.get_pid()
        self.group = groups.identity(self._pid, self._mark)
        groups.WATCHER.watch(self.group)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == ERR:
            self._errors = (self._errors + data)[-LAST_WORDS:]
        elif self._listening:
            self._chunks.append(data)
            self._held += len(data)
            self._more.set()
            if self._held > READ_AHEAD:
                self._stdout.pause_reading()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        self._more.set()
        self._perhaps_close()

    def process_exited(self) -> None:
        self._ended.set()
        if not self._perhaps_close():
            self._loop.call_later(LINGER, self._close_once_read)

    def _perhaps_close(self) -> bool:
        done = self._ended.is_set() and not self._open & {OUT, ERR}
        if done:
            self._close()
        return done

    def _close_once_read(self) -> None:
        if self._held > READ_AHEAD:
            self._loop.call_later(LINGER, self._close_once_read)
        else:
            self._close()

    def _close(self) -> None:
        self.kill()  # what it has left behind
        self._over = True
        self._closed.set()
        groups.WATCHER.forget(self.group)
        self._transport.close()

    async def _wait(self, within: float, *events: asyncio.Event) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                for event in events:
                    await event.wait()

    def _terminate(self) -> None:
        self.signal(signal.SIGTERM)

    def _take_output(self) -> bytes:
        taken = b"".join(self._chunks)
        self._chunks.clear()
        self._held = 0
        if OUT in self._open:
            self._stdout.resume_reading()
        return taken

    @property
    def _stdin(self) -> asyncio.WriteTransport | None:
        pipe = self._transport.get_pipe_transport(IN)
        return pipe if isinstance(pipe, asyncio.WriteTransport) else None

    @property
    def _stdout(self) -> asyncio.ReadTransport:
        pipe = self._transport.get_pipe_transport(OUT)
        assert isinstance(pipe, asyncio.ReadTransport)
        return pipe


async def launch(command: Command, args: Sequence[str]) -> Process:
    """Start the program with these arguments. Raises `ModelError`, `other`, if it cannot be started."""
    loop = asyncio.get_running_loop()
    mark = secrets.token_hex(8)
    try:
        _, process = await loop.subprocess_exec(
            lambda: Process(command, mark),
            *args,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={**command.environment, groups.MARK: mark},
            cwd=command.cwd,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        category, why = _refused(error)
        raise ModelError(category, f"{command.name} could not be started: {why}") from None
    return process


def _refused(error: OSError | ValueError) -> tuple[str, str]:
    """Return the error category and why a program cannot be started, without the path of its folder."""
    if not isinstance(error, OSError):
        return "invalid_request", "a NUL in its arguments, which no program can be given"
    if error.errno == errno.E2BIG:
        return "invalid_request", "its arguments are too long; have it read the prompt from stdin"
    if error.errno in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE):
        return "overloaded", str(error.strerror)
    where = f" ({error.filename})" if error.filename else ""
    return "other", f"{error.strerror}{where}"


def _ending(code: int | None) -> str:
    if code is None:
        return "does not listen or speak any more"
    if code < 0:
        names = {each.value: each.name for each in signal.Signals}
        return f"was ended by {names.get(-code, f'signal {-code}')}"
    return f"ended with exit code {code}"


ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links
    r"|[PX^_][^\x1b]*\x1b\\"  # what only a terminal understands
    r"|[ -/]*[0-OQ-WYZ\\`-~])"
)
BEGUN_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)\Z")


def without_escapes(text: str) -> str:
    """Return the text without escape sequences, whole or cut off."""
    return BEGUN_ESCAPE.sub("", ESCAPES.sub("", text)).replace("\x1b", "")
