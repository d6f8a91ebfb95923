"""A workload to be killed: agents side by side in several conversations, with tools, retries and streaming.

Everything that happens outside the log is written down outside the log, before anybody could know of it: each
start and end of a tool and of a model call, each entry and each piece of an answer that the program was told
of. Which answer a model gives is drawn from the key of its call, so it needs no memory.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import stenolog
from stenolog import Agent, Conversation, Team, TextPart, ToolCall
from stenolog.engine import EntryAppended, RetryPolicy, RunEvent
from stenolog.errors import ModelError
from stenolog.events import ErrorCategory
from stenolog.models import Model, ModelRequest, ModelResponse, ResponseDelta
from stenolog.tools import BaseTool, ToolContext, tool

TALKS = ("one", "two", "three")
AGENTS = ("anna", "ben", "cleo")
NEVER, SAFE, KEYED = "post", "look", "pay"
"""The tools, by whether a call of theirs may be run again."""
FAILURES: tuple[ErrorCategory, ...] = ("network", "overloaded", "timeout", "rate_limited")
PAUSE = 0.05
"""Seconds at most before a piece, and a call of a tool takes up to twice that."""
RETRIES = RetryPolicy(
    attempts=dict.fromkeys((*FAILURES, "process_exited", "invalid_response"), 1000), base=0.02, max_delay=0.1
)
ENOUGH = "enough"
"""A file of this name says that no more is to be said."""


class Ledger:
    """Lines in a file that survive the program; `synced`, the machine too."""

    def __init__(self, path: Path, *, synced: bool = False) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._synced = synced

    def write(self, *words: object) -> None:
        """Write one line of words without spaces, at once."""
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())
        if self._synced:
            os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)


def lines(path: Path) -> list[list[str]]:
    """Return the words of each line of a ledger."""
    return [line.split(" ") for line in path.read_text().splitlines()] if path.exists() else []


class Files(NamedTuple):
    """The files of a workload in a folder."""

    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "log.db"

    @property
    def tools(self) -> Path:
        """start|end, the tool, the call's id, its key."""
        return self.folder / "tools"

    @property
    def models(self) -> Path:
        """start|end|failed, the key, the conversation, the lane."""
        return self.folder / "models"

    @property
    def told(self) -> Path:
        """The conversation, the position, the digest of an entry that the program was told of."""
        return self.folder / "told"

    @property
    def pieces(self) -> Path:
        """The conversation, the piece, when (monotonic seconds) the program was told of it, the process."""
        return self.folder / "pieces"

    @property
    def enough(self) -> Path:
        return self.folder / ENOUGH


class Talker(Model):
    """Streams words that nobody else ever said, fails in mid-stream now and then, calls tools in parallel."""

    provider = "workload"
    name = "talker"

    def __init__(self, ledger: Ledger, pause: float = PAUSE) -> None:
        self.ledger = ledger
        self.pause = pause

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        chance, mark = Random(prompt.key), prompt.key[:16]
        named = (prompt.key, prompt.conversation, prompt.lane)
        self.ledger.write("start", *named)
        words = [f"{mark}-{number} " for number in range(chance.randint(3, 30))]
        fails = chance.randrange(len(words)) if chance.random() < 0.15 else None
        for number, word in enumerate(words):
            await asyncio.sleep(self.pause * chance.random())
            if number == fails:
                self.ledger.write("failed", *named)
                raise ModelError(chance.choice(FAILURES), f"{mark} was cut off")
            yield ResponseDelta(0, "text", word)
        calls = [_call(f"{mark}-c{number}", chance) for number in range(chance.choice((0, 0, 1, 2, 4)))]
        self.ledger.write("end", *named)
        yield ModelResponse((TextPart(text="".join(words)), *calls))


def _call(id: str, chance: Random) -> ToolCall:
    arguments = {"id": id, "seconds": round(2 * PAUSE * chance.random(), 3)}
    return ToolCall(id=id, name=chance.choice((NEVER, NEVER, SAFE, KEYED)), arguments=json.dumps(arguments))


def tools(ledger: Ledger) -> list[BaseTool]:
    """Return the three tools; one of them runs in a thread."""

    def post(id: str, seconds: float, call: ToolContext) -> str:
        """Post it, once."""
        ledger.write("start", NEVER, id, call.key)
        time.sleep(seconds)
        ledger.write("end", NEVER, id, call.key)
        return f"posted {id}"

    async def look(id: str, seconds: float, call: ToolContext) -> str:
        """Look at it."""
        return await slowly(SAFE, id, seconds, call)

    async def pay(id: str, seconds: float, call: ToolContext) -> str:
        """Pay for it, under a key."""
        return await slowly(KEYED, id, seconds, call)

    async def slowly(name: str, id: str, seconds: float, call: ToolContext) -> str:
        ledger.write("start", name, id, call.key)
        await asyncio.sleep(seconds)
        ledger.write("end", name, id, call.key)
        return f"done {id}"

    return [tool(post), tool(look, repeat="safe"), tool(pay, repeat="keyed")]


def work(folder: str) -> None:
    """Run the program: continue every conversation until there is enough."""
    asyncio.run(_work(Files(Path(folder))))


async def _work(files: Files) -> None:
    told, pieces = Ledger(files.told), Ledger(files.pieces)
    models, ran = Ledger(files.models, synced=True), Ledger(files.tools, synced=True)
    model, functions = Talker(models), tools(ran)
    agents = [Agent(name, llm=model, tools=functions, retries=RETRIES) for name in AGENTS]
    with stenolog.open(files.log) as log:
        async with Team(agents) as team:
            tell = _telling(told, pieces)
            await asyncio.gather(*(_converse(team, log[name], tell, files.enough) for name in TALKS))
    for ledger in (told, pieces, models, ran):
        ledger.close()


def _telling(told: Ledger, pieces: Ledger) -> Callable[[str, RunEvent], None]:
    def tell(name: str, happened: RunEvent) -> None:
        if isinstance(happened, EntryAppended):
            told.write(name, happened.entry.position, happened.entry.digest)
        elif happened.kind == "text":
            pieces.write(name, happened.text.strip(), time.monotonic(), os.getpid())

    return tell


async def _converse(
    team: Team, conversation: Conversation, tell: Callable[[str, RunEvent], None], enough: Path
) -> None:
    """Say something whenever all have come to rest."""
    message: str | None = None
    while True:
        async for happened in team.run(conversation, message):
            tell(conversation.name, happened)
        if enough.exists():
            return
        message = f"Go on from {conversation.position}"
