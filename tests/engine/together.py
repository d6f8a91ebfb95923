"""What several processes do at once on one conversation: each a function that a fresh process begins with."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import stenolog
from stenolog import Agent, AssistantMessage, Team, TextPart, ToolCall
from stenolog.adapters.store.sqlite.liveness import LivenessLock
from stenolog.engine import StreamDelta
from stenolog.models import Model, ModelRequest, ModelResponse, ResponseDelta
from stenolog.tools import ToolContext, tool
from tests.engine.workload import Files, Ledger, lines
from tests.stores.workers import PATIENCE

TALK = "demo"
WAIT = 0.005


class Echo(Model):
    """Answers with all that was said to it since its last answer; before that it calls `post` once."""

    provider = "echo"
    name = "echo"

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        self.ledger.write("start", prompt.key, prompt.conversation, prompt.lane)
        messages = prompt.body["messages"]
        if messages[-1]["role"] != "tool":
            await asyncio.sleep(WAIT)
            yield ModelResponse((ToolCall(id=f"{prompt.key[:16]}", name="post", arguments="{}"),))
            return
        said = f"re:{','.join(unanswered(messages))}"
        for letter in said:
            await asyncio.sleep(WAIT / 10)
            yield ResponseDelta(0, "text", letter)
        yield ModelResponse((TextPart(text=said),))


def unanswered(messages: list[dict[str, Any]]) -> list[str]:
    """Return the person's messages since the last answer without a call."""
    said: list[str] = []
    for message in messages:
        if message["role"] == "user":
            said += words(message["content"])
        elif message["role"] == "assistant" and not message.get("tool_calls"):
            said = []
    return said


def words(content: Any) -> list[str]:
    """Return the words of a user's message, be it a text or a list of parts."""
    return (content if isinstance(content, str) else " ".join(part["text"] for part in content)).split()


def echoing(files: Files) -> Team:
    """Return a team of one echo, whose calls are in the ledgers."""
    ran = Ledger(files.tools)

    async def post(call: ToolContext) -> str:
        """Post it, once."""
        ran.write("start", "post", call.id, call.key)
        await asyncio.sleep(WAIT)
        ran.write("end", "post", call.id, call.key)
        return "posted"

    return Team([Agent("echo", llm=Echo(Ledger(files.models)), tools=[tool(post)])])


def say_and_run(number: int, barrier: Barrier, folder: str, messages: int) -> str:
    """Say so many messages, and run the conversation after each, as all the others do."""
    files = Files(Path(folder))

    async def main() -> None:
        with stenolog.open(files.log) as log:
            async with echoing(files) as team:
                barrier.wait(PATIENCE)
                for n in range(messages):
                    async for _ in team.run(log[TALK], f"m{number}-{n}"):
                        pass

    asyncio.run(main())
    return "ok"


class Slow(Model):
    """Says one word, and where it is the first of all to be asked it waits until it may go on."""

    provider = "slow"
    name = "slow"

    def __init__(self, files: Files, waits: bool) -> None:
        self.files = files
        self.waits = waits
        self.ledger = Ledger(files.models)

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        self.ledger.write("start", prompt.key, prompt.conversation, prompt.lane)
        if self.waits and prompt.lane == "slow":
            yield ResponseDelta(0, "text", "half")
            await first_waits(self.files)
        called = any(message["role"] == "tool" for message in prompt.body["messages"])
        if not self.waits and prompt.lane == "slow" and not called:
            yield ModelResponse((ToolCall(id="c1", name="post", arguments="{}"),))
            return
        yield ModelResponse((TextPart(text=f"{prompt.lane} has done it"),))


async def first_waits(files: Files) -> None:
    """Let the first wait until there is enough; the others continue at once."""
    try:
        os.close(os.open(files.folder / "first", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    while not files.enough.exists():
        await asyncio.sleep(WAIT)


def go_on(folder: str, waits: bool) -> None:
    """Run the conversation to its end; the lane of `slow` waits in its model, or else in its tool."""
    files = Files(Path(folder))
    ran = Ledger(files.tools)

    async def post(call: ToolContext) -> str:
        """Post it, once."""
        ran.write("start", "post", call.id, call.key)
        await first_waits(files)
        return "posted"

    async def main() -> None:
        with stenolog.open(files.log) as log:
            model = Slow(files, waits)
            agents = [Agent("slow", llm=model, tools=[tool(post)]), Agent("quick", llm=model)]
            async with Team(agents) as team:
                async for _ in team.run(log[TALK]):
                    pass

    asyncio.run(main())


def alive(number: int, barrier: Barrier, file: str, runners: list[str]) -> list[str]:
    """Return the living runners, as another process sees them."""
    mine = LivenessLock(file, "mine", claimed=lambda: runners)
    found = [runner for runner in runners if mine.lives(runner)]
    mine.close()
    return found


def live(file: str, sender: Connection) -> None:
    """Be a runner that lives, and tell its owner."""
    runner = LivenessLock(file, "one")
    sender.send(runner.owner)
    time.sleep(PATIENCE)


def fork_and_live(file: str, sender: Connection) -> None:
    """Do the same with a fork of the process, which outlives it, and send both ids."""
    runner = LivenessLock(file, "one")
    child = os.fork()
    if child:
        sender.send((runner.owner, child))
    time.sleep(PATIENCE)


def close_after_a_fork(number: int, barrier: Barrier, file: str) -> str:
    """Close a runner and a log in a fork of their process, where their descriptors are other files by now."""
    runner, log = LivenessLock(file, "one"), stenolog.open(file)
    log.blobs.put(b"pinned")
    child = os.fork()
    if not child:
        files = [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]
        runner.close()
        log.close()
        for each in files:
            os.fstat(each)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert os.path.exists(f"{file}-runner-one")
    log.close()
    runner.close()
    return "ok"


def say(folder: str, text: str, to: str) -> None:
    """Say something, and do nothing else."""
    with stenolog.open(Files(Path(folder)).log) as log:
        log[TALK].submit(stenolog.UserMessage(text=text, to=[to]))


WRITERS = tuple(f"{agent}/{task}" for agent in ("writer", "editor") for task in range(1, 5))
"""Eight lanes: four instances of each of two agents."""


class Writer(Model):
    """Writes some words that tell whose they are."""

    provider = "writer"
    name = "writer"

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        text = f"{prompt.lane}:{prompt.key}"
        for letter in text:
            await asyncio.sleep(0)
            yield ResponseDelta(0, "text", letter)
        yield ModelResponse((TextPart(text=text),))


def write(folder: str, times: int) -> None:
    """Have all writers write at once, so many times."""
    files = Files(Path(folder))
    streamed = Ledger(files.pieces)

    async def main() -> None:
        with stenolog.open(files.log) as log:
            async with Team([Agent(name, llm=Writer()) for name in ("writer", "editor")]) as team:
                for _ in range(times):
                    said: dict[str, list[str]] = {}
                    async for happened in team.run(log[TALK], "Write", to=WRITERS):
                        if isinstance(happened, StreamDelta):
                            said.setdefault(happened.lane, []).append(happened.text)
                    for lane in said:
                        streamed.write("".join(said[lane]))

    asyncio.run(main())
    streamed.close()


def lost_words(files: Files) -> list[str]:
    """Return the streamed texts that are not in the log just once, or that do not tell what they saw."""
    with stenolog.open(files.log) as log:
        events = [entry.event for entry in log[TALK].entries()]
    answers = [event for event in events if isinstance(event, AssistantMessage)]
    stands = Counter(event.text for event in answers)
    wrong = [text for (text,) in lines(files.pieces) if stands[text] != 1]
    wrong += [text for text in stands if [text] not in lines(files.pieces)]
    wrong += [event.text for event in answers if event.receipt is None or not event.receipt.view]
    return wrong
