"""The engine's own time: against a loop by hand with the same commits, in a long log, to the first token."""

from __future__ import annotations

import asyncio
import math
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks._ratio import Row, accepted, compared
from benchmarks.read import conversation
from stenolog import Agent, Conversation, ModeSwitch, Team, TextPart, ToolCall, UserMessage
from stenolog.adapters.conversation import log as logs
from stenolog.adapters.conversation.log import extend
from stenolog.adapters.conversation.queries.folds import Json
from stenolog.adapters.store.claims import Claims
from stenolog.adapters.store.contract.values import Claim
from stenolog.context import LastN
from stenolog.domain.entry import microseconds
from stenolog.domain.events import AssistantMessage, ToolResult
from stenolog.domain.values import Receipt
from stenolog.engine import Limits, StreamDelta
from stenolog.models import Model, ModelRequest, ModelResponse, OpenAIChat, ResponseDelta
from stenolog.tools import ToolContext, tool
from tests.llms.server import Received, Reply, Server
from tests.llms.wire_openai_chat import frames

STEPS = 20
"""Model calls of one run; each but the last calls a tool."""
SHORT, LONG = 100, 100_000
RECEIPT = Json(Receipt)
ANSWER = ModelResponse((TextPart(text="It is the ledger. " * 8),), model="gpt-5", finish_reason="stop")


class AtOnce(Model):
    """Answers at once: with a call of the tool, and after so many steps with a text."""

    name = "gpt-5"

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.asked = 0

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        self.asked += 1
        yield ResponseDelta(0, "text", "It is the ledger.")
        calls = [ToolCall(id=f"c{self.asked}", name="count", arguments=f'{{"row": {self.asked}}}')]
        yield ModelResponse((TextPart(text="It is the ledger."), *(calls if self.asked % self.steps else ())))


@tool
async def count(row: int) -> int:
    """Count a row."""
    return row


def run() -> Iterable[Row]:
    with tempfile.TemporaryDirectory() as folder:
        yield against_hand(Path(folder), "a run of 20 steps", steps=STEPS, rounds=15)
        yield accepted(against_hand(Path(folder), "a run of one step", steps=1, rounds=100), 2.5)
        yield in_a_long_log(Path(folder))
        yield first_token(Path(folder))


def against_hand(folder: Path, what: str, steps: int, rounds: int) -> Row:
    """Return a run of the engine against the same by hand."""
    with asyncio.Runner() as loop, logs.open(folder / f"{steps}.db") as log:
        engine, hand = running(loop, log["engine"], steps), by_hand(loop, log["hand"], steps)
        ours_s, floor_s = compared(engine, hand, rounds)
    note = f"{ours_s / steps * 1e3:.2f} against {floor_s / steps * 1e3:.2f} ms a step"
    return Row(f"engine: {what} against a loop by hand with the same commits", ours_s / floor_s, 2, note=note)


def in_a_long_log(folder: Path) -> Row:
    """Return the same run at the end of a short log and of a long one."""
    with (
        asyncio.Runner() as loop,
        logs.open(folder / "short.db") as short,
        logs.open(folder / "long.db") as long,
    ):
        short["talk"].extend(conversation(SHORT))
        events = conversation(LONG)
        for first in range(0, LONG, 10_000):
            long["talk"].extend(events[first : first + 10_000])
        long_s, short_s = compared(
            running(loop, long["talk"], STEPS), running(loop, short["talk"], STEPS), rounds=15
        )
    note = f"{long_s / STEPS * 1e3:.2f} against {short_s / STEPS * 1e3:.2f} ms a step"
    return Row(f"engine: a step at entry {LONG:,} against entry {SHORT}", long_s / short_s, 1.2, note=note)


def coder(model: Model) -> Agent:
    return Agent("coder", llm=model, persona="You are a coder.", tools=[count], policy=LastN(20), limits=FREE)


FREE = Limits(max_steps=None, same_call=None, ping_pong=None, same_error=None)


def running(loop: asyncio.Runner, talk: Conversation, steps: int) -> Callable[[], None]:
    """Run the engine on one message."""
    team = Team([coder(AtOnce(steps))])

    async def run() -> None:
        async for _ in team.run(talk, "Count."):
            pass

    return lambda: loop.run(run())


def by_hand(loop: asyncio.Runner, talk: Conversation, steps: int) -> Callable[[], None]:
    """Return the engine as one would write it by hand.

    It reads the last position, claims each effect, and appends the result under the claim.
    """
    model = AtOnce(steps)
    talk.append(ModeSwitch(joins=["coder"], cards={"coder": coder(model).card([count.spec])}), expected=0)
    claims = Claims(talk.log.recorder, talk.stream)

    def claim(effect: str, position: int, key: str, receipt: bytes = b"") -> int:
        at = microseconds(talk.log.edge.clock())
        (taken,) = claims.take(
            [Claim(0, "coder", effect, position, 1, key, "me", at, receipt)], expected=position
        )
        assert taken is not None
        return taken.fence

    async def step(position: int) -> int:
        request = talk.request("coder")
        fence = claim("model", position, request.sha256, RECEIPT.dump(request.receipt))
        async for piece in model.stream(ModelRequest(request.body, request.sha256, "coder", talk.name)):
            if isinstance(piece, ModelResponse):
                answer = piece
        event = AssistantMessage(
            agent="coder", parts=answer.parts, cause=position, model=model.name, receipt=request.receipt
        )
        (entry,) = extend(talk, [event], position, fence)
        for call in event.tool_calls:
            fence = claim(f"tool {entry.position}/0", entry.position, entry.id)
            outcome = await count.run(ToolContext("count", call.arguments, entry.id, "coder", talk.name))
            result = ToolResult(call_id=call.id, name="count", text=str(outcome.content[0]))
            (entry,) = extend(talk, [result], entry.position, fence)
        return entry.position

    async def run() -> None:
        assert talk.state().lane("coder").status == "idle"
        position = talk.append(UserMessage(text="Count.")).position
        for _ in range(steps):
            position = await step(position)

    return lambda: loop.run(run())


def first_token(folder: Path, rounds: int = 60) -> Row:
    """Measure the time from a message to the first word, against the SDK alone with the same body."""

    def reply(_: Received) -> Reply:
        return Reply(frames(ANSWER))

    with Server(reply) as server, asyncio.Runner() as loop, logs.open(folder / "token.db") as log:
        ours, bare = loop.run(_first_tokens(server, log["talk"], rounds))
    note = f"{ours * 1e3:.1f} against {bare * 1e3:.1f} ms, two commits and the request among it"
    return Row(
        "engine: what it adds to the time to the first token", (ours - bare) * 1e3, math.inf, "ms", note
    )


async def _first_tokens(server: Server, talk: Conversation, rounds: int) -> tuple[float, float]:
    """Return median seconds of the engine and of the SDK alone, called in turns."""
    import openai

    url = f"{server.url}/v1"
    team = Team([coder(OpenAIChat("gpt-5", base_url=url, api_key="none"))])
    times: tuple[list[float], list[float]] = ([], [])
    async with team, openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        for _ in range(rounds):
            times[0].append(await _engines(team, talk))
            times[1].append(await _bare(client, server.bodies[-1]))
    return median(times[0]), median(times[1])


async def _engines(team: Team, talk: Conversation) -> float:
    start, first = time.perf_counter(), 0.0
    async for happened in team.run(talk, "Which one?"):
        if isinstance(happened, StreamDelta) and not first:
            first = time.perf_counter() - start
    return first


async def _bare(client: Any, body: dict[str, Any]) -> float:
    start, first = time.perf_counter(), 0.0
    async with await client.chat.completions.create(**body) as stream:
        async for chunk in stream:
            if not first and chunk.choices and chunk.choices[0].delta.content:
                first = time.perf_counter() - start
    return first
