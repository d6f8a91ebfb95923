"""A worker: an agent that another one calls as a tool, with a conversation or a scope of its own.

    lead = Agent("lead", llm=…, tools=[Delegate(Agent("reader", llm=…), context="fork", share=0.25)])

The worker's last answer is the tool's result: the summary that is merged. Parent and child name each other. A
call that is cut off is taken up where the child stands.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from pydantic import JsonValue

from stenolog.adapters import keeping
from stenolog.adapters.conversation import Conversation
from stenolog.adapters.tools.port import Call, Outcome, Runnable
from stenolog.domain.entry import Draft
from stenolog.domain.errors import StaleAppend, ToolError
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, UserMessage
from stenolog.domain.limits import Limits, Tokens
from stenolog.domain.parts import text_of
from stenolog.domain.state import Lane
from stenolog.domain.values import Link, Tool

from .agent import Agent
from .options import Options
from .standing import WATCH

if TYPE_CHECKING:
    from .team import Team

Context: TypeAlias = Literal["fork", "scope", "fresh"]
TASK: dict[str, JsonValue] = {
    "type": "string",
    "description": "What to do, with all that is needed to do it.",
}
LOOK = 1.0
"""Seconds between two looks whether a person has approved what a worker waits for."""


class Delegate(Runnable):
    """An agent as a tool of another; it is called with a `task`.

    `context`: "fork", it knows all that its caller knew when it called; "scope", it works in the caller's own
    conversation, on a lane of its own; "fresh", it knows its task alone. `share` of the tokens that the
    caller's limits leave are the worker's.
    """

    def __init__(
        self,
        worker: Agent,
        *,
        context: Context = "fresh",
        share: float = 1.0,
        name: str = "",
        description: str = "",
        approval: bool = False,
    ) -> None:
        self.worker = worker
        self.context = context
        self.share = share
        self.repeat = "safe"  # the child stands where it was cut off
        self.timeout = None
        self.spec = Tool(
            name=name or f"ask_{worker.name}",
            description=description or f"Have {worker.name} do a task, and get what came of it.",
            parameters={"type": "object", "properties": {"task": TASK}, "required": ["task"]},
            approval=approval,
        )
        self._caller: Agent | None = None
        self._options = Options()

    def under(self, caller: Agent, options: Options) -> Delegate:
        """The same, for a caller whose limits it shares, run with its team's options."""
        bound = Delegate(self.worker, context=self.context, share=self.share)
        bound.spec, bound._caller, bound._options = self.spec, caller, options
        return bound

    async def run(self, call: Call) -> Outcome:
        """Have the task done. A task that fails is an error that says why."""
        assert call.talk is not None, "the engine gives the conversation"
        task = _task(call.arguments)
        child, lane = await asyncio.to_thread(self._begin, call, call.talk, task)
        team = self._team(await asyncio.to_thread(self._limits, call, call.talk))
        await _until_done(team, child, lane)
        return await asyncio.to_thread(_outcome, child, lane)

    async def close(self) -> None:
        """Give back what the worker's model and tools hold; other calls of it may be under way until then."""
        await self._team(self.worker.limits).close()

    def _begin(self, call: Call, talk: Conversation, task: str) -> tuple[Conversation, Lane]:
        """The child conversation with its task, where it is not there from an earlier run; and the lane."""
        mark = call.key[:8]
        scoped = self.context == "scope"
        lane = Lane(self.worker.name, mark if scoped else "")
        child = talk if scoped else self._child(call, talk, f"{talk.name}~{self.worker.name}-{mark}")
        said = UserMessage(
            text=task,
            author=call.lane,
            author_kind="agent",
            to=[lane.address],
            cause=call.position if scoped else None,
        )
        child.extend([Draft(said, f"task-{call.key}")])
        return child, lane

    def _child(self, call: Call, talk: Conversation, name: str) -> Conversation:
        if name in talk.log:
            return talk.log[name]
        if self.context == "fork":
            return talk.fork(after=call.position - 1, name=name)
        child = talk.log[name]
        called = next(talk.entries(call.position - 1, call.position))
        link = Link(conversation=talk.name, position=called.position, digest=called.digest)
        opening = ModeSwitch(mode="agent", parent=link)
        with suppress(StaleAppend):  # another run of this very call was first
            child.append(opening, expected=0)
        return child

    def _limits(self, call: Call, talk: Conversation) -> Limits:
        """The worker's limits, within its share of what its caller may still use."""
        most = self._caller.limits.max_tokens if self._caller else None
        if not most:
            return self.worker.limits
        left = max(0, most - talk.fold(WATCH).lane(call.lane).total)
        share = max(1, int(left * self.share))
        return replace(self.worker.limits, max_tokens=min(share, self.worker.limits.max_tokens or share))

    def _team(self, limits: Limits) -> Team:
        from .team import Team  # late: a team's tools may be workers

        team = Team([replace(self.worker, limits=limits)], join=False)
        team.options = self._options
        return team


async def _until_done(team: Team, child: Conversation, lane: Lane) -> None:
    """Run until the lane has come to rest, over approvals too, however long a person takes for them."""
    while True:
        async for _ in team.run(child):
            pass
        state = await asyncio.to_thread(child.state)
        if state.lane(lane.address).status != "awaiting_approval":
            return
        await asyncio.sleep(LOOK)


def _outcome(child: Conversation, lane: Lane) -> Outcome:
    last = keeping.current(child, keeping.STATE).lane(lane.address)
    words, position, failed = "", 0, last.status != "idle"
    for entry in child.entries(after=max(0, last.answered - 1)):
        match entry.event:
            case AssistantMessage(agent=lane.agent, task=lane.task, parts=parts):
                words, position = text_of(tuple(parts)), entry.position
            case LlmError(agent=lane.agent, task=lane.task, category=category, message=message) if failed:
                raise ToolError(f"{lane.agent} has stopped ({category}: {message})")
            case _:
                pass
    if failed:
        raise ToolError(f"{lane.agent} has stopped: {last.status}")
    spent = {model: _used(tokens) for model, tokens in child.fold(WATCH).lane(lane.address).tokens.items()}
    link = {"conversation": child.name, "position": position, "lane": lane.address, "spent": spent}
    return Outcome((words,), meta={"stenolog": {"child": link}})


def _used(tokens: Tokens) -> dict[str, int]:
    return {kind: number for kind, number in tokens._asdict().items() if number}


def _task(arguments: str) -> str:
    try:
        task = json.loads(arguments or "{}")["task"]
    except (ValueError, KeyError, TypeError):
        task = None
    if not isinstance(task, str) or not task.strip():
        raise ToolError('expected arguments {"task": "…"} with some words')
    return task
