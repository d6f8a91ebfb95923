"""The ways to run a program: a person speaks and decides, and somebody runs the team until all is at rest."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from typing import Any, NamedTuple, Protocol

from pydantic_core import to_jsonable_python

from stenolog import Conversation, Log, ToolCall
from stenolog.adapters.engine.handoff import HandoffTool
from stenolog.adapters.engine.team.start import settings_of
from stenolog.adapters.tools.asking import Asking
from stenolog.adapters.tools.execute import execute
from stenolog.apps.serve.service import Service
from stenolog.domain.codec import REGISTRY
from stenolog.domain.lanes.effects import effects
from stenolog.domain.parts import text_of
from stenolog.engine import Team
from stenolog.errors import ModelError
from stenolog.events import CallRef, Control, ToolQuestion, UserMessage
from stenolog.models import ModelRequest, ModelResponse
from stenolog.tools import BaseTool, ToolContext
from stenolog.workers import Worker, answer, approve, reject, submit

from .world import Program, World

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

    async def go_on(self) -> bool:
        """Continue a lane that waits for that; return whether there is one."""

    async def rest(self) -> None:
        """Wait until all is at rest."""

    def close(self) -> None:
        """Be gone."""


class Here:
    """A program that runs its team itself."""

    def __init__(self, team: Team, conversation: Conversation, world: World) -> None:
        self.team = team
        self.conversation = conversation
        self.world = world

    async def say(self, words: Any, id: str) -> None:
        self.world.results.append(await self.team.run_to_end(self.conversation, words, id=id))

    async def rest(self) -> None:
        self.world.results.append(await self.team.run_to_end(self.conversation))

    async def waiting(self) -> list[Waiting]:
        found = await self.team.pending_approvals(self.conversation)
        return [Waiting(each.call, each.name, _question(each)) for each in found]

    async def decide(self, waits: Waiting, value: Any) -> None:
        if waits.question:
            await self.team.answer(self.conversation, waits.call, value)
        elif value is False:
            await self.team.reject(self.conversation, waits.call)
        else:
            await self.team.approve(self.conversation, waits.call, None if value is True else value)

    async def go_on(self) -> bool:
        failed = any(lane.status == "failed" for lane in self.conversation.state().lanes.values())
        if failed:
            await self.team.resume(self.conversation)
        return failed

    def close(self) -> None:
        pass


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
        if waits.question:
            await answer(self.conversation, waits.call, value)
        elif value is False:
            await reject(self.conversation, waits.call)
        else:
            await approve(self.conversation, waits.call, None if value is True else value)

    async def go_on(self) -> bool:
        failed = any(lane.status == "failed" for lane in self.conversation.state().lanes.values())
        if failed:
            await submit(self.conversation, UserMessage(control=Control(action="continue")))
        return failed


class Served:
    """A program in another language: all that it knows is what `serve` answers. A worker runs the team."""

    def __init__(self, team: Team, conversation: Conversation, world: World) -> None:
        self.service = Service(conversation.log)
        self.name = conversation.name

    def call(self, method: str, **params: Any) -> Json:
        """Call a method with JSON."""
        named = {} if method == "put_blob" else {"conversation": self.name}
        given = json.dumps(named | params).encode()
        return self.service.call(method, given).model_dump(mode="json")

    def submit(self, event: Json, id: str | None = None) -> None:
        self.call("submit", kind="user_message", event=event, id=id)

    async def say(self, words: Any, id: str) -> None:
        self.submit({"text": words} if isinstance(words, str) else {"parts": [*map(self._part, words)]}, id)
        await self.rest()

    async def rest(self) -> None:
        while (
            (now := self.call("state"))["state"]["waiting"] or now["effects"] or self.call("claims")["claims"]
        ):
            await asyncio.sleep(PAUSE)

    def _part(self, item: str | bytes) -> Json:
        if isinstance(item, str):
            return {"type": "text", "text": item}
        blob = self.call("put_blob", base64=b64encode(item).decode())["sha256"]
        return {"type": "image", "media_type": "image/png", "blob": blob}

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

    async def go_on(self) -> bool:
        lanes = self.call("state")["state"]["lanes"].values()
        failed = any(lane["status"] == "failed" for lane in lanes)
        if failed:
            self.submit({"control": {"action": "continue"}})
        return failed

    def close(self) -> None:
        self.service.close()


class Claiming(Served):
    """A program in another language that runs its agents by claims: it has its own models and tools."""

    def __init__(self, team: Team, conversation: Conversation, world: World) -> None:
        super().__init__(team, conversation, world)
        self.conversation = conversation
        self.team = team

    async def say(self, words: Any, id: str) -> None:
        _, opening = REGISTRY.dump(settings_of(self.team._setting, await self.team.tools()))
        first = {"kind": "mode_switch", "event": json.loads(opening), "id": "settings"}
        self.call("append", events=[first], expected=0)
        await super().say(words, id)

    async def rest(self) -> None:
        tools = {
            tool.spec.name: tool for each in (await self.team.tools()).values() for tool in each.values()
        }
        repeatable = [name for name, tool in tools.items() if tool.repeat != "never"]
        idle = 0
        while self.call("state")["effects"]:
            work = self.call("claim", repeatable=repeatable)
            for each in work["claimed"]:
                called = each["call"]
                outcome = await self._run(tools[called["name"]], each) if called else await self._ask(each)
                self.call("settle", fence=each["fence"], outcome=outcome)
            if not work["claimed"]:
                assert (idle := idle + 1) < 100, "nothing is claimed any more"
                await self.team.options.world.sleep(work["due"] or PAUSE)

    async def _ask(self, claimed: Json) -> Json:
        """Call an agent's model, and return the answer as the provider's JSON."""
        model = self.team.agents[claimed["agent"]].llm
        assert model is not None
        body = claimed["request"]["body"]
        try:
            prompt = ModelRequest(body, claimed["key"], claimed["lane"], self.name, "")
            answer = [piece async for piece in model.stream(prompt)][-1]
        except ModelError as error:
            return {"failure": {"category": error.category, "message": error.message}}
        assert isinstance(answer, ModelResponse)
        calls = [
            {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": part.arguments}}
            for part in answer.parts
            if isinstance(part, ToolCall)
        ]
        message: Json = {"role": "assistant", "content": text_of(answer.parts) or None}
        choice = {"index": 0, "finish_reason": answer.finish_reason, "message": message}
        message |= {"tool_calls": calls} if calls else {}
        return {
            "response": {"id": "r", "object": "chat.completion", "model": body["model"], "choices": [choice]}
        }

    async def _run(self, tool: BaseTool, claimed: Json) -> Json:
        """Run a tool, and return its output or its question."""
        call = claimed["call"]
        asking = ByWords({each["question"]: each["answer"] for each in call["answers"]})
        context = ToolContext(
            name=call["name"],
            arguments=call["arguments"],
            key=claimed["key"],
            lane=claimed["lane"],
            conversation_name=self.name,
            id=call["id"],
            position=call["position"],
            deps=self.team.options.deps,
            asking=asking,
        )
        outcome = await execute(tool, context, [])
        if asking.open is not None:
            return {"question": to_jsonable_python(asking.open)}
        output: Json = {"text": "".join(map(str, outcome.content)), "is_error": outcome.is_error}
        if isinstance(tool, HandoffTool) and not outcome.is_error:
            given = json.loads(call["arguments"])
            output |= {"hands_on_to": tool.to, "message": given.get("message", "")}
        return {"output": output}


class ByWords(Asking):
    """The answers to a call's questions, as JSON, by their words."""

    def __init__(self, answers: dict[str, str]) -> None:
        super().__init__()
        self.answers = answers

    def require(self, question: ToolQuestion) -> str:
        found = self.answers.pop(question.text, None)
        return super().require(question) if found is None else found


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

    person: Callable[[Team, Conversation, World], Person]
    running: Callable[[Team, Log], AbstractAsyncContextManager[None]]


WAYS = {
    "itself": Way(Here, by_itself),
    "worker": Way(Submitted, by_worker),
    "serve": Way(Served, by_worker),
    "claims": Way(Claiming, by_itself),
}


async def converse(way: Way, program: Program, team: Team, conversation: Conversation, world: World) -> None:
    """Say all that is not said yet, and decide whatever waits."""
    async with team, way.running(team, conversation.log):
        with closing(way.person(team, conversation, world)) as person:
            for number, words in enumerate(program.said):
                await person.say(words, f"said-{number}")
                while (waiting := await person.waiting()) or (
                    "continue" in program.answers and await person.go_on()
                ):
                    for waits in waiting:
                        await person.decide(waits, program.answers[waits.question or waits.tool])
                    await person.rest()
