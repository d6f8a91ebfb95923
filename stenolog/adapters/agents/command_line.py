"""Models that are programs, run from a command line."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from stenolog.adapters.models.base import Model, ModelRequest, StreamItem, Timeouts
from stenolog.domain.errors import CallerError, ModelError
from stenolog.projections.messages.body_digest import PROMPT
from stenolog.projections.requests.transport import Outgoing, Transport

from .answer_buffer import ResponseBuilder
from .command import Command
from .long_lived import Framed, Program, SessionPlace, SessionPool
from .output_formats import JsonLines, lines
from .output_parser import LinesParser, OutputParser, Silence, TextParser, heard_out
from .process import launch

LOGGER = logging.getLogger("stenolog.engine")
Mode: TypeAlias = Literal["one-shot", "long-lived"]
PATIENT = Timeouts(connect=60.0, first_token=600.0, idle=600.0, total=3600.0)
"""For agents that work for themselves before they speak."""
END = "<<<end>>>"
SILENT = 10.0
"""The seconds of silence in an answer after which is said what its end is."""


@dataclass(frozen=True)
class HealthCheck:
    """Health check of a long-lived program.

    A program silent for `after` seconds is sent `ping` before the next request. Without an answer within
    `timeout` seconds it is ended, and the request is sent in full. With `every`, programs are checked every
    so many seconds, and a dead or silent one is restarted at once.
    """

    ping: str = "ping"
    after: float = 300.0
    timeout: float = 10.0
    every: float | None = None


class CommandLine(Model):
    """Program that takes a prompt as plain text and answers on stdout.

    `one-shot` starts it for each request: the prompt on stdin, or as the argument `{prompt}`. `long-lived`
    keeps one process for each lane of a conversation, at most `most` at a time. `format` is its language:
    `text`, `jsonl`, `claude-code`, `codex`, `gemini-cli`, `qwen-code`, or a `JsonLines`. For text of a
    long-lived program, the line `end` ends requests and answers; without it, `idle_ends` seconds of silence
    end an answer.

    Cancelling ends a one-shot process, and sends a long-lived one the signal `interrupt`. `patience`: the
    seconds for each step of ending a process. `env` is added to the environment, of which the program
    inherits a list and the names in `inherit`, such as `["AWS_*"]`. Errors show no value of `env`. `name`:
    the program's by default.

    `remembers` is true for a long-lived program and for a format that resumes sessions.
    """

    provider: ClassVar[str] = "command-line"
    api = "plain"

    def __init__(
        self,
        command: Sequence[str] | str,
        *,
        mode: Mode = "one-shot",
        format: str | JsonLines = "text",
        env: Mapping[str, str] | None = None,
        inherit: Sequence[str] = (),
        cwd: str | os.PathLike[str] | None = None,
        timeouts: Timeouts = PATIENT,
        end: str | None = None,
        idle_ends: float | None = None,
        health: HealthCheck | None = None,
        interrupt: int = signal.SIGINT,
        patience: float = 5.0,
        most: int = 100,
        name: str = "",
    ) -> None:
        self._lines = form = lines(format)
        self._command = Command.of(command, env, cwd, inherit)
        if form is not None:
            self._command = self._command.with_options(
                form.speak, form.listen if mode == "long-lived" else ()
            )
        is_text = mode == "long-lived" and form is None
        _check(mode, self._command, end, idle_ends, is_text=is_text)
        self._mode = mode
        self._silence = Silence(idle_ends or SILENT, bool(idle_ends), self._say_end) if is_text else None
        self._marks = format if isinstance(format, str) and format not in ("text", "jsonl") else self.provider
        self._end = (END if idle_ends is None else "") if end is None else end
        self._health = health
        self._watch: asyncio.Task[None] | None = None
        self._interrupt = interrupt
        self._patience = patience
        self._resume = form.resume if form else ()
        self.remembers = mode == "long-lived" or bool(self._resume)
        self._residents = SessionPool(self._begin, most, resumes=bool(self._resume))
        self.name = name or self._command.name
        self.timeouts = timeouts
        self.charges = form.charges if form else "listed"

    def __repr__(self) -> str:
        return f"CommandLine({self._command.name!r}, mode={self._mode!r})"

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        text = prompt.body[PROMPT]
        if self._mode == "one-shot":
            answer = self._once(text, prompt.session)
        else:
            answer = self._residents.ask(SessionPlace(prompt.conversation, prompt.lane), prompt.session, text)
        try:
            async with aclosing(answer) as pieces:
                async for piece in pieces:
                    yield piece
        except ModelError as error:
            hidden = self._command.hide(error.message)
            raise ModelError(error.category, hidden, retry_after=error.retry_after) from None

    async def lost(self, lane: str, conversation: str, session: str) -> str:
        if not session or self._mode == "one-shot" or self._resume:
            return ""
        await asyncio.sleep(0)  # so that the loop has noticed an end
        place = SessionPlace(conversation, lane)
        return self._residents.lost(place, session) or await self._residents.check(place, self._unwell)

    def is_alive(self, lane: str, conversation: str) -> bool:
        """Return whether a process runs for that lane."""
        return self.pid(lane, conversation) is not None

    def pid(self, lane: str, conversation: str) -> int | None:
        """Return the process id of a lane's program, or None."""
        who = self._residents.at(SessionPlace(conversation, lane))
        return who.pid if who is not None and who.alive else None

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        await self._residents.close()

    async def _once(self, prompt: str, session: str) -> AsyncGenerator[StreamItem, None]:
        transport = Transport("argument" if self._command.takes_prompt else "stdin", style="text")
        content = transport.render({PROMPT: prompt})
        yield Outgoing(content, transport)
        process = await launch(self._command, self._command.arguments(prompt, session, self._resume))
        try:
            if not self._command.takes_prompt:
                process.write(content)
            process.close_stdin()
            async with aclosing(heard_out(process, self._parser(session), self._patience)) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            await process.stop(self._patience, politely=False)

    async def _begin(self, place: SessionPlace, session: str) -> Program:
        process = await launch(self._command, self._command.arguments(session=session, resume=self._resume))
        if self._health is not None and self._health.every and (self._watch is None or self._watch.done()):
            self._watch = asyncio.create_task(self._keep_alive(self._health.every))
        name = session or secrets.token_hex(8)
        return Program(
            process, name, self._parser, self._framed, self._interrupt, self._patience, self._silence
        )

    def _say_end(self) -> None:
        if self._silence is not None:  # once
            self._silence = self._silence._replace(warn=lambda: None)
            LOGGER.warning(
                "%s has not ended its answer with the line %s: set end= to its line, or idle_ends= to the "
                "seconds of silence that end an answer",
                self._command.name,
                self._end,
            )

    async def _keep_alive(self, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            try:
                for place, why in (await self._residents.renew(self._unwell)).items():
                    LOGGER.warning("%s: %s: %s; started again", place.conversation, place.lane, why)
            # It cannot be started now; the next request, or the next look, tries it again.
            except ModelError as error:
                LOGGER.warning("%s cannot be started again: %s", self._command.name, error)

    async def _unwell(self, who: Program) -> str:
        """Check the program's health; return the fault for which it was ended, empty if it is well."""
        if self._health is None or who.silent < self._health.after:
            return ""
        try:
            async with asyncio.timeout(self._health.timeout), aclosing(who.ask(self._health.ping)) as pieces:
                async for _ in pieces:
                    pass
        except TimeoutError:
            await who.stop()
            return f"{self._command.name} did not answer {self._health.ping!r} in {self._health.timeout:g} s"
        except ModelError as error:
            await who.stop()
            return self._command.hide(error.message)
        return ""

    def _parser(self, session: str) -> OutputParser:
        turn = ResponseBuilder(self._marks, session, resumes=bool(self._resume))
        if self._lines is not None:
            return LinesParser(turn, self._lines.read)
        return TextParser(turn, self._end if self._mode == "long-lived" else "")

    def _framed(self, prompt: str) -> Framed:
        """Return a request to a long-lived program; no transport if the prompt is not found in it."""
        if self._lines is None:
            transport = Transport("stdin", style="lines", after=f"\n{self._end}\n" if self._end else "\n")
            return transport.render({PROMPT: prompt}), transport
        line = json.dumps(self._lines.ask(prompt)) + "\n"
        before, told, after = line.partition(json.dumps(prompt))
        whole = Transport("stdin", style="string", before=before, after=after)
        return line.encode(), whole if told else None


def _check(mode: str, command: Command, end: str | None, idle_ends: float | None, *, is_text: bool) -> None:
    """Raise `CallerError` for options that cannot be combined."""
    if mode not in ("one-shot", "long-lived"):
        raise CallerError(f"mode: expected one-shot or long-lived, found {mode!r}")
    if mode == "long-lived" and command.takes_prompt:
        raise CallerError(
            "mode: a long-lived process gets its prompts on stdin, found {prompt} in its command"
        )
    if end is not None and (not end.strip() or "\n" in end):
        raise CallerError(f"end: expected one line that is not blank, found {end!r}")
    if idle_ends is not None and not (is_text and idle_ends > 0):
        wanted = "more than 0 seconds" if is_text else "a long-lived program that speaks text"
        raise CallerError(f"idle_ends: expected {wanted}, found {idle_ends if is_text else mode!r}")
