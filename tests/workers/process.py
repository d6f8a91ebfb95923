"""A worker in a process of its own, whose model and tools note each call outside of the log."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from random import Random

import stenolog
from stenolog import Agent, Team, TextPart, ToolCall
from stenolog.apps.cli.commands.run.worker import work_until_told
from stenolog.apps.workers.queues import WorkerRegistry
from stenolog.engine import RetryPolicy
from stenolog.models import Model, ModelRequest, ModelResponse, ResponseDelta
from stenolog.tools import BaseTool, ToolContext, tool
from stenolog.workers import Queue, Worker
from tests.engine.workload import Ledger

CONCURRENCY = 10
NEVER, SAFE = "post", "look"
"""The tools, by whether a call of theirs may be run again."""
RUN = "run"
"""What a worker notes when it is given a conversation."""
STEPS = 4
"""Pieces of an answer."""
RETRIES = RetryPolicy(attempts={"process_exited": 1000}, base=0.02, max_delay=0.1)


def seconds(key: str, least: float = 0.05, most: float = 0.3) -> float:
    """Return how long an effect takes, which its key says."""
    return Random(key).uniform(least, most)


class Noting(Model):
    """A model that calls a tool, then answers; it notes each call."""

    provider = name = "noting"

    def __init__(self, ledger: Ledger, pace: float) -> None:
        self.ledger = ledger
        self.pace = pace

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        """Yield an answer in pieces."""
        self.ledger.write(time.time(), os.getpid(), "model", prompt.conversation, prompt.key)
        last = prompt.body["messages"][-1]
        for number in range(STEPS):
            await asyncio.sleep(self.pace * seconds(prompt.key) / STEPS)
            yield ResponseDelta(0, "text", f"{number} ")
        said = TextPart(text="".join(f"{number} " for number in range(STEPS)))
        if last["role"] == "tool":
            yield ModelResponse((said,))
        else:
            name = Random(prompt.key).choice((NEVER, SAFE))
            arguments = json.dumps({"what": "bread"})
            yield ModelResponse((said, ToolCall(id=f"c{prompt.key[:8]}", name=name, arguments=arguments)))


def team(folder: Path, pace: float = 1.0) -> Team:
    """Return the team of a worker that writes into a folder."""
    ledger = Ledger(folder / "ledger")

    def noted(name: str) -> Callable[..., object]:
        async def work(what: str, call: ToolContext) -> str:
            """Work."""
            ledger.write(time.time(), os.getpid(), name, call.conversation_name, call.key)
            await asyncio.sleep(pace * seconds(call.key))
            return "done"

        return work

    tools: list[BaseTool] = [
        tool(noted(SAFE), name=SAFE, repeat="safe"),
        tool(noted(NEVER), name=NEVER),
    ]
    return Team([Agent("coder", llm=Noting(ledger, pace), tools=tools, retries=RETRIES)])


class NotingWorker(Worker):
    """A worker that notes each conversation that it is given."""

    ledger: Ledger

    async def _run(self, queue: Queue, registry: WorkerRegistry, key: int) -> float | None:
        name = await asyncio.to_thread(self.log.recorder.conversations.name_of, key)
        self.ledger.write(time.time(), os.getpid(), RUN, name, "-")
        return await super()._run(queue, registry, key)


def work(address: str, folder: str, pace: float = 1.0) -> None:
    """Work until a signal says to stop."""
    with stenolog.open(address) as log:
        worker = NotingWorker(log, team(Path(folder), pace), concurrency=CONCURRENCY)
        worker.ledger = Ledger(Path(folder) / "ledger")
        asyncio.run(work_until_told(worker))
