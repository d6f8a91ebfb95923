"""A process that works on a log in PostgreSQL under a short lease, to be frozen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import stenolog
from stenolog import Agent, Team, TextPart
from stenolog.adapters.store.postgres import presence
from stenolog.engine import RetryPolicy
from stenolog.models import Model, ModelRequest, ModelResponse, ResponseDelta
from tests.engine.workload import Ledger
from tests.stores.workers import PATIENCE

SHORT = {"LEASE": 3.0, "UNPROTECTED": 1.5, "RENEW": 0.3, "LOOK": 0.05}
"""A lease that a test can wait for, in the proportions of the real one."""
TALK = "demo"


class Half(Model):
    """Says half of it the first time, and waits for ever; says all of it the next time."""

    provider = "half"
    name = "half"

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.asked = 0

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        self.asked += 1
        self.ledger.write("start")
        if self.asked == 1:
            yield ResponseDelta(0, "text", "half")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.ledger.write("cancelled")
                raise
        yield ModelResponse((TextPart(text="whole"),))


def team(model: Model) -> Team:
    """Return a team of one, which asks its model again at once."""
    retries = RetryPolicy(attempts={"process_exited": 3}, base=0.01, max_delay=0.01)
    return Team([Agent("coder", llm=model, retries=retries)])


async def work(log: stenolog.Log, model: Model, *said: Any) -> None:
    """Run the conversation to its end."""
    async with asyncio.timeout(PATIENCE), team(model) as made:
        async for _ in made.run(log[TALK], *said):
            pass


def work_under_a_short_lease(address: str, ledger: str) -> None:
    """Do so in a process of its own."""
    for name, seconds in SHORT.items():
        setattr(presence, name, seconds)
    with stenolog.open(address) as log:
        asyncio.run(work(log, Half(Ledger(Path(ledger))), "Go"))
