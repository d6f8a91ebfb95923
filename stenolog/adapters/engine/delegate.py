"""Workers: agents that other agents call as tools.

    lead = Agent("lead", llm=…, tools=[AgentTool(Agent("reader", llm=…), context="fork", share=0.25)])

The worker's last answer is the tool's result. Parent and child name each other. An interrupted call is
continued in the child; a cancelled one cancels the child.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from typing import Literal, TypeAlias

from pydantic import JsonValue

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.conversation.queries import folds
from stenolog.adapters.engine.agent import Agent, Upkeep, WorkerTool
from stenolog.adapters.engine.journal.live_state import WATCH
from stenolog.adapters.engine.journal.work import short_key
from stenolog.adapters.engine.options import Options
from stenolog.adapters.engine.team.team import Team
from stenolog.adapters.tools.base import ToolContext, ToolOutput
from stenolog.domain.entry import Entry, NewEntry
from stenolog.domain.errors import CallerError, IllegalCommandError, ToolError, VersionConflictError
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.lanes.lifecycle import BUSY
from stenolog.domain.lanes.limits import Limits, Tokens
from stenolog.domain.lanes.state import LaneState
from stenolog.domain.values import Control, ConversationRef, Tool
from stenolog.domain.verdict import own_meta

Context: TypeAlias = Literal["fork", "scope", "fresh"]
TASK: dict[str, JsonValue] = {
    "type": "string",
    "description": "What to do, with all that is needed to do it.",
}
TASK_ID = "task-"
"""The prefix of the id of the message that gives a worker its task."""
# Only a person's decision is waited for here.
LOOK = 1.0
"""Seconds between two looks whether a person has approved what a worker waits for."""
# Less than `runner.GRACE`, within which a cancelled call has to end.
GRACE = 4.0
"""Seconds that a worker has to end by itself after it was cancelled."""


class AgentTool(WorkerTool):
    """Agent as a tool of another; it is called with a `task`.

    `context`: "fork", the worker knows what its caller knew; "scope", it works in the caller's conversation
    on a lane of its own, and needs a name of its own; "fresh", it knows only its task. `share` is its part of
    the tokens that the caller's limits leave; workers at the same time have equal parts at most.
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
        # A call that is made again goes on in the child, where that was cut off.
        self.repeat = "safe"
        self.timeout = None
        self.spec = Tool(
            name=name or f"ask_{worker.name}",
            description=description or f"Have {worker.name} do a task, and get what came of it.",
            parameters={"type": "object", "properties": {"task": TASK}, "required": ["task"]},
            approval=approval,
        )
        self._caller: Agent | None = None
        self._options = Options()
        self._summary: Upkeep | None = None

    def under(self, caller: Agent, options: Options, summary: Upkeep | None) -> AgentTool:
        """Return a copy for one caller, with its limits and its team's options and summary.

        Raises `CallerError`.
        """
        self._check(caller, options.names)
        bound = AgentTool(self.worker, context=self.context, share=self.share)
        bound.spec, bound._caller, bound._options, bound._summary = self.spec, caller, options, summary
        return bound

    async def run(self, call: ToolContext) -> ToolOutput:
        """Have the task done. A task that fails gives an error with the reason."""
        assert call.conversation is not None, "the engine gives the conversation"
        task = _task(call.arguments)
        lane = LaneState(self.worker.name, short_key(call.key) if self.context == "scope" else "")
        team = self._team(await asyncio.to_thread(self._limits, call, call.conversation), lane)
        team.options = replace(team.options, deps=call.deps)
        # Before anything is said: a worker without its tools does not begin.
        await team.tools()
        child = await asyncio.to_thread(self._begin, call, call.conversation, task, lane)
        work = asyncio.create_task(_until_done(team, child, lane), name=f"worker {lane.address:.64}")
        try:
            # Shielded, since a cancelled call may be taken up by the next run: `_stop` decides how the work
            # ends.
            await asyncio.shield(work)
        except asyncio.CancelledError:
            await _stop(work, call, child, lane)
            raise
        except Exception:
            # The call ends with an error, so the child must not go on by itself.
            await asyncio.to_thread(_cancel, child, lane, call.lane)
            raise
        return await asyncio.to_thread(worker_output, child, lane)

    async def close(self) -> None:
        """Release what the worker's model and tools hold; no call may be under way."""
        await self._team(self.worker.limits, LaneState(self.worker.name)).close()

    def _check(self, caller: Agent, names: frozenset[str]) -> None:
        """Raise `CallerError` if a worker, at any depth, has the name of an agent that takes part."""
        if self.context != "scope":
            return
        if self.worker.name in names:
            raise CallerError(f"agent {caller.name!r}: {_needs_a_name(self.worker)}")
        for tool in self.worker.tools:
            if isinstance(tool, AgentTool):
                tool._check(self.worker, names | {self.worker.name})

    def _begin(
        self, call: ToolContext, conversation: Conversation, task: str, lane: LaneState
    ) -> Conversation:
        """Return the worker's conversation with its task; an earlier run may have begun both."""
        # A member of that name may have joined since the team was made.
        if lane.task and self.worker.name in conversation.state().members:
            raise ToolError(_needs_a_name(self.worker))
        called = conversation.entry(call.position)
        assert isinstance(called.event, AssistantMessage), "calls are of answers"
        child = (
            conversation
            if lane.task
            else self._child(called, conversation, f"{self.worker.name}~{short_key(call.key)}")
        )
        message = UserMessage(
            text=task,
            author=call.lane,
            author_kind="agent",
            to=[lane.address],
            cause=call.position if lane.task else None,
            run=called.event.run,
            node=called.event.node,
        )
        # The id comes from the call, so a later run does not write the task twice.
        child.extend([NewEntry(message, f"{TASK_ID}{call.key}")])
        return child

    def _child(self, called: Entry, conversation: Conversation, name: str) -> Conversation:
        if name in conversation.log:
            return conversation.log[name]
        if self.context == "fork":
            # Before the calling answer, whose call would have no result in the fork.
            return conversation.fork(after=called.position - 1, name=name)
        child = conversation.log[name]
        link = ConversationRef(conversation=conversation.name, position=called.position, digest=called.digest)
        opening = ModeSwitch(mode="agent", parent=link)
        # Another run of this very call may have been first.
        with suppress(VersionConflictError):
            child.append(opening, expected=0)
        return child

    def _limits(self, call: ToolContext, conversation: Conversation) -> Limits:
        most = self._caller.limits.max_tokens if self._caller else None
        if not most:
            return self.worker.limits
        # What other workers of the same answer use meanwhile is not counted yet, so each has an equal part.
        left = max(0, most - conversation.fold(WATCH).lane(call.lane).total)
        # At least one token: 0 would mean no limit.
        share = max(1, int(left * min(self.share, 1 / self._at_once(call, conversation))))
        return replace(self.worker.limits, max_tokens=min(share, self.worker.limits.max_tokens or share))

    def _at_once(self, call: ToolContext, conversation: Conversation) -> int:
        tools = self._caller.tools if self._caller else ()
        workers = {tool.spec.name for tool in tools if isinstance(tool, AgentTool)}
        return max(1, sum(each.name in workers for each in conversation.state().lane(call.lane).calls))

    def _team(self, limits: Limits, lane: LaneState) -> Team:
        # In its caller's own conversation the caller's summary is the one.
        summary = None if self.context == "scope" else self._summary
        # Its caller waits for its answer, so it hands on to nobody.
        worker = replace(self.worker, limits=limits, handoffs=())
        team = Team([worker], join=False, summary=summary)
        team.summary_of_workers = self._summary
        before = self._options.names if self.context == "scope" else frozenset()
        team.options = replace(self._options, lane=lane.address, names=before | {self.worker.name})
        return team


async def _until_done(team: Team, child: Conversation, lane: LaneState) -> None:
    """Run until the lane is at rest, however long a person takes for approvals."""
    while True:
        async for _ in team.run(child):
            pass
        state = await asyncio.to_thread(child.state)
        # A lane that waits for approval is busy, and goes on once a person has decided.
        if state.lane(lane.address).status not in BUSY:
            return
        await asyncio.sleep(LOOK)


async def _stop(work: asyncio.Task[None], call: ToolContext, child: Conversation, lane: LaneState) -> None:
    """Stop a worker: permanently if its call was closed; else the next run continues it."""
    assert call.conversation is not None, "the engine gives the conversation"
    try:
        # The log still waits for an open call: the next run goes on with the child.
        if not await asyncio.to_thread(_is_open, call, call.conversation):
            await asyncio.to_thread(_cancel, child, lane, call.lane)
            await asyncio.wait({work}, timeout=GRACE)
    finally:
        work.cancel()
        await asyncio.wait({work})
        if not work.cancelled():
            # Retrieved, so that asyncio does not report it as an error that was never seen.
            work.exception()


def _is_open(call: ToolContext, conversation: Conversation) -> bool:
    return any(
        (each.position, each.id) == (call.position, call.id) for _, each in conversation.state().open_calls()
    )


def _cancel(child: Conversation, lane: LaneState, author: str) -> None:
    control = Control(action="cancel", agent=lane.agent, task=lane.task)
    # The lane may have come to rest by itself.
    with suppress(IllegalCommandError):
        child.submit(UserMessage(control=control, author=author, author_kind="agent"))


def worker_output(child: Conversation, lane: LaneState, at: int | None = None) -> ToolOutput:
    """Return the worker's last answer or the reason for its stop, and its usage."""
    state = folds.fold_at(child, folds.STATE, at)
    last, endings = state.lane(lane.address), state.endings.get(lane.agent, ())
    words, position = "", 0
    fault: str = "" if last.status == "idle" else last.status
    for entry in child.entries(max(0, last.answered - 1), at):
        match entry.event:
            case AssistantMessage(agent=lane.agent, task=lane.task, purpose="answer") as answer:
                words, position = answer.text, entry.position
                # A lane at rest waits for no call, so calls behind its last answer were cancelled.
                fault = "cancelled" if answer.tool_calls and not last.has_ended else ""
            case ToolResult() as result if "output" in own_meta(result):
                words, fault = json.dumps(own_meta(result)["output"], ensure_ascii=False), ""
            case ToolResult(name=name, is_error=False) as result if last.has_ended and name in endings:
                words = words or result.text
            case LlmError(agent=lane.agent, task=lane.task, category=category, message=message):
                fault = f"{category}: {message}"
            case _:
                pass
    account = child.fold(WATCH, at).lane(lane.address)
    spent = {model: _used(used) for model, used in account.tokens.items()}
    link = {"conversation": child.name, "position": position, "lane": lane.address, "spent": spent}
    if account.billed:
        link["billed"] = {model: {**_used(used), "cost": used.cost} for model, used in account.billed.items()}
    text = f"{lane.agent} has stopped ({fault})" if fault else words
    return ToolOutput((text,), is_error=bool(fault), meta={"stenolog": {"child": link}})


def _needs_a_name(worker: Agent) -> str:
    return f"expected a worker in a scope of a name that no agent there has, found {worker.name!r}"


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
