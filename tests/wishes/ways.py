"""The ways to run a program: a person speaks and decides, and somebody runs the team until all is at rest."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple, Protocol

from stenolog import Conversation, Log
from stenolog.apps.serve.service import Service
from stenolog.domain.lanes.effects import effects
from stenolog.engine import Team
from stenolog.events import CallRef
from stenolog.workers import Worker, approve, reject, submit

Json = dict[str, Any]


class Waiting(NamedTuple):
    """A call that waits for a person: its tool, and the question that it asks, if any."""

    call: CallRef
    tool: str
    question: str = ""


class Person(Protocol):
    """Somebody who talks with a team."""

    async def say(self, words: Any, id: str) -> None:
        """Say something once, and wait until all is at rest."""

    async def waiting(self) -> list[Waiting]:
        """Return the calls that wait for a person."""

    async def decide(self, waits: Waiting, value: Any) -> None:
        """Answer a question, approve a call (True, or other arguments) or refuse it (False)."""

    async def rest(self) -> None:
        """Wait until all is at rest."""


class Here:
    """A program that runs its team itself."""

    def __init__(self, team: Team, conversation: Conversation) -> None:
        self.team = team
        self.conversation = conversation

    async def say(self, words: Any, id: str) -> None:
        async for _ in self.team.run(self.conversation, words, id=id):
            pass

    async def rest(self) -> None:
        async for _ in self.team.run(self.conversation):
            pass

    async def waiting(self) -> list[Waiting]:
        found = await self.team.pending_approvals(self.conversation)
        return [Waiting(each.call, each.name, _question(each)) for each in found]

    async def decide(self, waits: Waiting, value: Any) -> None:
        if value is False:
            await self.team.reject(self.conversation, waits.call)
        else:
            await self.team.approve(self.conversation, waits.call, None if value is True else value)


class Submitted(Here):
    """A program whose team a worker runs."""

    async def say(self, words: Any, id: str) -> None:
        await submit(self.conversation, words, id=id)
        await self.rest()

    async def rest(self) -> None:
        log = self.conversation.log
        while (state := self.conversation.state()).waiting or effects(state) or log.claims():
            await asyncio.sleep(PAUSE)

    async def decide(self, waits: Waiting, value: Any) -> None:
        if value is False:
            await reject(self.conversation, waits.call)
        else:
            await approve(self.conversation, waits.call, None if value is True else value)


class Served:
    """A program in another language: all that it knows is what `serve` answers. A worker runs the team."""

    def __init__(self, team: Team, conversation: Conversation) -> None:
        self.service = Service(conversation.log)
        self.name = conversation.name

    def call(self, method: str, **params: Any) -> Json:
        """Call a method with JSON."""
        given = json.dumps({"conversation": self.name} | params).encode()
        return self.service.call(method, given).model_dump(mode="json")

    def submit(self, event: Json, id: str | None = None) -> None:
        self.call("submit", kind="user_message", event=event, id=id)

    async def say(self, words: Any, id: str) -> None:
        said = {"text": words} if isinstance(words, str) else words
        self.submit(said, id)
        await self.rest()

    async def rest(self) -> None:
        while (
            (now := self.call("state"))["state"]["waiting"] or now["effects"] or self.call("claims")["claims"]
        ):
            await asyncio.sleep(PAUSE)

    async def waiting(self) -> list[Waiting]:
        lanes = self.call("state")["state"]["lanes"].values()
        return [
            Waiting(CallRef(entry=call["entry"], index=call["nth"]), call["name"], self._question(call))
            for lane in lanes
            for call in lane["calls"]
            if call["approval"] or call["question"]
        ]

    def _question(self, call: Json) -> str:
        if not call["question"]:
            return ""
        [asked] = self.call("entries", after=call["question"] - 1, at=call["question"])["entries"]
        return str(asked["event"]["control"]["question"]["text"])

    async def decide(self, waits: Waiting, value: Any) -> None:
        control: Json = {"call": {"entry": waits.call.entry, "index": waits.call.index}}
        if waits.question:
            control |= {"action": "answer", "answer": json.dumps(value)}
        elif value is False:
            control["action"] = "refuse"
        else:
            control |= {"action": "approve"} | ({} if value is True else {"arguments": json.dumps(value)})
        self.submit({"control": control})


PAUSE = 0.01
"""Seconds between two looks of a person who waits."""


def _question(waits: Any) -> str:
    found = getattr(waits, "question", None)
    return found.text if found else ""


@asynccontextmanager
async def by_itself(team: Team, log: Log) -> AsyncIterator[None]:
    """Let the program run its team."""
    yield


@asynccontextmanager
async def by_worker(team: Team, log: Log) -> AsyncIterator[None]:
    """Run a worker until the block ends."""
    worker = Worker(log, team)
    running = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        await running


class Way(NamedTuple):
    """A way to run: the person's side, and who runs the team."""

    person: Callable[[Team, Conversation], Person]
    running: Callable[[Team, Log], AbstractAsyncContextManager[None]]


WAYS = {
    "itself": Way(Here, by_itself),
    "worker": Way(Submitted, by_worker),
    "serve": Way(Served, by_worker),
}


async def converse(
    way: Way, team: Team, conversation: Conversation, said: Iterable[Any], answers: Mapping[str, Any]
) -> None:
    """Say all that is not said yet, and decide whatever waits."""
    async with team, way.running(team, conversation.log):
        person = way.person(team, conversation)
        for number, words in enumerate(said):
            await person.say(words, f"said-{number}")
            while waiting := await person.waiting():
                for waits in waiting:
                    await person.decide(waits, answers[waits.question or waits.tool])
                await person.rest()
