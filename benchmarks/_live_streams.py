"""A process of the benchmark `live`: teams that answer in many conversations, each piece with its time."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator

import stenolog
from stenolog import Agent, Team
from stenolog.events import UserMessage
from stenolog.models import Model, ModelRequest, ModelResponse, ResponseDelta, StreamItem
from stenolog.parts import TextPart

PIECES_A_SECOND = 25
"""As fast as a person reads, and a model writes."""


class Clock(Model):
    """Says what time it is, again and again."""

    name = "clock"
    charges = "nothing"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        end, said = time.monotonic() + self._seconds, []
        while time.monotonic() < end:
            await asyncio.sleep(1 / PIECES_A_SECOND)
            said.append(f"{time.time():.6f} ")
            yield ResponseDelta(0, "text", said[-1])
        yield ModelResponse((TextPart(text="".join(said)),))


async def stream(address: str, streams: int, seconds: float) -> None:
    """Run a team in each of so many conversations."""
    with stenolog.open(address) as log:
        team = Team([Agent("coder", llm=Clock(seconds))])

        async def answer(name: str) -> None:
            async for _ in team.run(log[name], "What time is it?"):
                pass

        await asyncio.gather(*(answer(f"talk {number}") for number in range(streams)))


def append(address: str, streams: int, seconds: float) -> None:
    """Append to each of so many conversations in turn, twenty times a second."""
    with stenolog.open(address) as log:
        end, number = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            log[f"talk {number % streams}"].append(UserMessage(text=f"{time.time():.6f}"))
            number += 1
            time.sleep(0.05)


if __name__ == "__main__":
    what, address, streams, seconds = sys.argv[1:]
    if what == "stream":
        asyncio.run(stream(address, int(streams), float(seconds)))
    else:
        append(address, int(streams), float(seconds))
