"""A team: agents that work on conversations, by what the log says is next.

team = Team([Agent("coder", llm=OpenAIChat("gpt-5.2"), tools=[read_file])])
async for happened in team.run(log["demo"], "Find the bug"):
    print(happened)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from stenolog.adapters.engine import approvals
from stenolog.adapters.engine.agent import Agent, Upkeep, WorkerTool, check_mode_tools, unknown_mode_tool
from stenolog.adapters.engine.inputs import (
    AnyConversation,
    Message,
    message_of,
    opened_conversation,
    words_of,
)
from stenolog.adapters.engine.journal.live_state import LiveState
from stenolog.adapters.engine.mentions import agents_by_name, mentioned_agents
from stenolog.adapters.engine.model_calls.retries import CircuitBreaker
from stenolog.adapters.engine.options import WORLD, EntryAppended, OnUnknown, Options, RunEvent, Runtime
from stenolog.adapters.engine.runner.runner import Runner
from stenolog.adapters.engine.runner.upkeep_schedule import upkeeps
from stenolog.adapters.providers.prices import listed
from stenolog.adapters.tools.base import BaseTool
from stenolog.adapters.tools.functions import as_runnables, opened
from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError, IllegalCommandError
from stenolog.domain.events import UserMessage
from stenolog.domain.lanes.state import State
from stenolog.domain.lanes.turns import TurnRule
from stenolog.domain.values import CallRef, Control, TurnPolicy
from stenolog.projections.prices import Prices

from .start import Input, OnInput, TeamSettings, check_costs, check_team, check_upkeep, start_run, summarised

if TYPE_CHECKING:
    from .result import RunResult

LOGGER = logging.getLogger("stenolog.engine")
_closing: set[asyncio.Task[None]] = set()  # the event loop itself holds tasks weakly


class Team:
    """Agents and their turn rule. A team may work on many conversations at once.

    `turns`: the turn rule; None leaves the conversation's own. `mode`: the mode of new conversations. `join`:
    the agents become members, who hear messages without an addressee; `exclusive`: other members leave.
    `on_unknown`: an interrupted call that may not run again gets a result that says so; with "ask", its lane
    also waits for a person. `parallel`: the most effects under way in a conversation. `mentions`: an `@name`
    in an answer hands on; None: only under a rule by names, as `Orchestrator`; False: nor in a message.
    `prices`: for `max_cost`; None: of `genai-prices` if it is installed, else a few examples. `breaker` makes
    a model's circuit breaker. `world`: chance and time. `paranoid`: each request, not one in a hundred, is
    built again before it is sent; a difference stops it. `summary`: for agents, and workers, without one.
    `deps`: passed to tools, never recorded.

    Raises `CallerError`.
    """

    def __init__(
        self,
        agents: Sequence[Agent],
        *,
        turns: TurnPolicy | TurnRule | None = None,
        mode: str = "agent",
        join: bool = True,
        exclusive: bool = False,
        on_unknown: OnUnknown = "tell",
        parallel: int = 16,
        mentions: bool | None = None,
        prices: Prices | None = None,
        breaker: Callable[[], CircuitBreaker] = CircuitBreaker,
        world: Runtime = WORLD,
        paranoid: bool = False,
        summary: Upkeep | None = None,
        deps: object = None,
    ) -> None:
        check_team(agents, turns)
        self.agents = {agent.name: summarised(agent, summary) for agent in agents}
        check_upkeep(self.agents)
        check_mode_tools(self.agents.values())
        self.turns = turns
        self.mode = mode
        names = frozenset(self.agents)
        table = listed() if prices is None else prices
        self.options = Options(
            on_unknown, parallel, mentions, table, world, breaker, names=names, paranoid=paranoid, deps=deps
        )
        self.summary_of_workers = summary and summary.within(self.agents)
        self._setting = TeamSettings(self.agents, turns, mode, join, exclusive)
        self._missed: set[tuple[str, str]] = set()
        self._tools: dict[str, dict[str, BaseTool]] | None = None
        self._failures: dict[str, list[str]] = {}
        self._opening: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    async def __aenter__(self) -> Team:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the models' and tools' connections and processes. The team may be used again."""
        self._tools = None
        helpers = [upkeep.by for _, upkeep in upkeeps(self.agents) if isinstance(upkeep.by, Agent)]
        held: list[Any] = [
            each for agent in (*self.agents.values(), *helpers) for each in (*agent.models, *agent.tools)
        ]
        for each in {id(each): each for each in held}.values():
            if hasattr(each, "close"):
                await each.close()

    async def run(
        self,
        conversation: AnyConversation,
        message: Message | None = None,
        *,
        to: str | Iterable[str] = (),
        id: str = "",
        on_input: OnInput = "next",
        deps: object = None,
    ) -> AsyncGenerator[RunEvent, None]:
        """Send a message, if given, and work until every lane waits for a person or has stopped.

        Yields each entry as it is appended, and each piece of an answer as it streams. If the caller stops
        iterating, the run stops, and the next one continues. A list, such as `["look", Path("a.png")]`, is a
        message with files. One with an `id` is sent once, however often the program runs. `deps` replace the
        team's. Raises `CallerError` for a file that cannot be read, `AgentNotFoundError`, `StoreError`,
        `UnsupportedVersionError`, `ReplayMismatchError`, `DuplicateIdError`, `StoreTimeoutError`.
        """
        words = await self._input(conversation, message, to, id, on_input)
        async with self._runner(conversation, words, deps) as runner:
            async for happened in runner.run():
                yield happened
            self._tell_of_absent(runner.conversation.name, runner.journal.state)

    async def ask(
        self,
        conversation: AnyConversation,
        message: Message | None = None,
        *,
        to: str | Iterable[str] = (),
        id: str = "",
        deps: object = None,
    ) -> Any:
        """Send a message, and return the last answer: its text, or its value if its agent has an `output`.

        Without an answer, the text is empty. If an earlier run answered the message of that `id`, that answer
        is returned. Retries are logged as warnings. Raises `ModelError` if a lane that was at work has
        failed; and as `run`.
        """
        from .result import RunCollector  # late: `run` needs none

        run = RunCollector(self.agents)
        async for happened in self.run(conversation, message, to=to, id=id, deps=deps):
            if isinstance(happened, EntryAppended):
                run.take(happened.entry)
        run.check()
        if id and not run.last.has_answered:
            await asyncio.to_thread(run.last.take_after, await opened_conversation(conversation), id)
        return run.last.value

    async def run_to_end(
        self,
        conversation: AnyConversation,
        message: Message | None = None,
        *,
        to: str | Iterable[str] = (),
        id: str = "",
        on_input: OnInput = "next",
        deps: object = None,
    ) -> RunResult:
        """Run as `run` does, and return the answer, the usage, the new entries, and why the run ended.

        A failure is in the result, and is not raised. Raises as `run`.
        """
        from .result import RunCollector, result_of_run, worker_positions  # late, as above

        run, opened = RunCollector(self.agents), await opened_conversation(conversation)
        before = await asyncio.to_thread(worker_positions, opened)
        async for happened in self.run(opened, message, to=to, id=id, on_input=on_input, deps=deps):
            if isinstance(happened, EntryAppended):
                run.take(happened.entry)
        return await asyncio.to_thread(result_of_run, run, opened, before, self.options.prices, id)

    def ask_sync(
        self,
        conversation: AnyConversation,
        message: Message | None = None,
        *,
        to: str | Iterable[str] = (),
        id: str = "",
        deps: object = None,
    ) -> Any:
        """Ask as `ask` does, in a program without an event loop.

        Raises `CallerError` if a loop runs, as in Jupyter: await `ask` there.
        """
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            raise CallerError("an event loop is running here, as in Jupyter: use `await team.ask(…)` instead")
        return asyncio.run(self.ask(conversation, message, to=to, id=id, deps=deps))

    async def advance(self, conversation: AnyConversation) -> list[Entry]:
        """Do one effect, and return the appended entries; none if nothing is due."""
        async with self._runner(conversation) as runner:
            return await runner.advance()

    async def send(
        self,
        conversation: AnyConversation,
        message: Message,
        *,
        to: str | Iterable[str] = (),
        id: str = "",
        on_input: OnInput = "next",
    ) -> list[Entry]:
        """Send a message while a run may be under way, here or elsewhere.

        `on_input`: "next", agents at work hear it at their next step; "queue", when all are at rest;
        "cancel", what is under way is stopped first.
        """
        opened, tools = await opened_conversation(conversation), await self.tools()
        words = await self._input(opened, message, to, id, on_input)
        return await asyncio.to_thread(lambda: start_run(LiveState(opened), self._setting, tools, words))

    async def cancel(self, conversation: AnyConversation, agent: str = "", task: str = "") -> list[Entry]:
        """Stop one lane or all, wherever they run; return nothing if they are at rest.

        Raises `IllegalCommandError` for an agent that is not there.
        """
        try:
            return await _control(conversation, Control(action="cancel", agent=agent, task=task))
        except IllegalCommandError:
            if agent:
                raise
            return []  # an answer ended just before

    async def resume(self, conversation: AnyConversation, agent: str = "", task: str = "") -> list[Entry]:
        """Resume one failed lane, or all."""
        return await _control(conversation, Control(action="continue", agent=agent, task=task))

    async def approve(
        self,
        conversation: AnyConversation,
        call: CallRef,
        arguments: approvals.Arguments | None = None,
        by: approvals.Approver | None = None,
    ) -> list[Entry]:
        """Approve a call. Its agent sees changed `arguments`; `by` is noted, and signs if it has a key.

        Raises `InvalidEventError` if they do not fit the tool's schema.
        """
        opened = await opened_conversation(conversation)
        control = await asyncio.to_thread(approvals.approval, opened, call, arguments, by)
        return await _control(opened, control)

    async def reject(
        self, conversation: AnyConversation, call: CallRef, by: approvals.Approver | None = None
    ) -> list[Entry]:
        """Refuse a call; its agent sees that."""
        opened = await opened_conversation(conversation)
        return await _control(opened, await asyncio.to_thread(approvals.refusal, opened, call, by))

    async def answer(
        self,
        conversation: AnyConversation,
        call: CallRef,
        value: Any,
        by: approvals.Approver | None = None,
        *,
        asked: int = 0,
    ) -> list[Entry]:
        """Answer the question of a tool's call; `asked`: only the one at this position.

        Raises `InvalidEventError` if the answer is none of the choices, or does not fit the schema.
        """
        opened = await opened_conversation(conversation)
        message = await asyncio.to_thread(approvals.answer, opened, call, value, by, asked)
        return await asyncio.to_thread(opened.submit, message)

    async def pending_approvals(self, conversation: AnyConversation) -> list[approvals.PendingApproval]:
        """Return the calls that wait for a person to approve or to answer them, those of workers too."""
        return await asyncio.to_thread(approvals.waiting, await opened_conversation(conversation))

    async def tools(self) -> dict[str, dict[str, BaseTool]]:
        """Return the tools of each agent by name; connects to their servers.

        Tools of a toolbox that cannot be opened are missing, with a warning; the next call tries again.
        """
        loop = asyncio.get_running_loop()
        # A lock belongs to one event loop, and a team may be used in several, one after the other.
        if self._opening is None or self._opening[0] is not loop:
            self._opening = loop, asyncio.Lock()
        async with self._opening[1]:
            # Only missing tools are opened: connections of earlier runs stay.
            before = self._tools or {}
            wanted = [
                agent for name, agent in self.agents.items() if name not in before or name in self._failures
            ]
            self._tools = before | {agent.name: await self._tools_of(agent) for agent in wanted}
            return self._tools

    async def _tools_of(self, agent: Agent) -> dict[str, BaseTool]:
        failures: list[str] = []
        tools = await opened(as_runnables([*agent.tools, *agent.own_tools]), failures)
        before = self._failures.pop(agent.name, [])
        if failures:
            self._failures[agent.name] = failures
        for failure in failures:
            # Each call tries again; only news of it is worth a warning.
            if failure not in before:
                LOGGER.warning("%s goes on without some tools: %s", agent.name, failure)
        if before and not failures:
            LOGGER.warning("%s has all its tools again", agent.name)
        if not failures and (fault := unknown_mode_tool(agent, tools)):
            LOGGER.warning("%s: %s", agent.name, fault)
        return {name: self._bound(tool, agent) for name, tool in tools.items()}

    def _bound(self, tool: BaseTool, agent: Agent) -> BaseTool:
        if agent.handoffs:
            from stenolog.adapters.engine.handoff import HandoffTool  # late: few agents hand on

            if isinstance(tool, HandoffTool):
                return tool.among(self.agents, is_alone=bool(self.options.lane))
        if isinstance(tool, WorkerTool):
            return tool.under(agent, self.options, self.summary_of_workers)
        return tool

    async def _input(
        self,
        conversation: AnyConversation,
        message: Message | None,
        to: str | Iterable[str],
        id: str,
        on_input: OnInput,
    ) -> Input | None:
        if message is None:
            return None
        names = [to] if isinstance(to, str) and to else list(to)
        if not isinstance(message, UserMessage) and not names and self.options.mentions is not False:
            # Only without `to`, which says it more plainly than the text.
            names = [*mentioned_agents(words_of(message), agents_by_name(self.agents))]
        if not isinstance(message, str | UserMessage):
            put_blob = (await opened_conversation(conversation)).log.blobs.put
            message = await asyncio.to_thread(message_of, message, put_blob)
        said = UserMessage(text=message) if isinstance(message, str) else message
        return Input(replace(said, to=tuple(names)) if names else said, id, on_input)

    def _tell_of_absent(self, conversation: str, state: State) -> None:
        """Warn once that the turn is with an agent that this team does not have."""
        holders = [holder.partition("/")[0] for holder in state.turn_state.holders]
        # A team of one lane, as in a fork, takes no part in the turns.
        if state.turns is None or self.options.lane or any(name in self.agents for name in holders):
            return
        for name in {*holders} - {agent for where, agent in self._missed if where == conversation}:
            self._missed.add((conversation, name))
            LOGGER.warning(
                "%s: it is the turn of %r, which this team does not have. Run a team that has it, or take it "
                "out of the conversation (exclusive = true)",
                conversation,
                name,
            )

    @asynccontextmanager
    async def _runner(
        self, conversation: AnyConversation, words: Input | None = None, deps: object = None
    ) -> AsyncGenerator[Runner, None]:
        tools = await self.tools()
        options = self.options if deps is None else replace(self.options, deps=deps)
        # Before the run, so that no call is made under a limit that cannot be kept.
        check_costs(self.agents.values(), self.options.prices)
        runner = Runner(await opened_conversation(conversation), self.agents, tools, options)
        try:
            await runner.open(lambda live: start_run(live, self._setting, tools, words))
            yield runner
        finally:
            # A task of its own, so that the runner closes in good order however often this is cancelled.
            closing = asyncio.create_task(runner.close())
            _closing.add(closing)
            closing.add_done_callback(_closing.discard)
            await asyncio.shield(closing)


async def _control(conversation: AnyConversation, control: Control) -> list[Entry]:
    opened = await opened_conversation(conversation)
    return await asyncio.to_thread(opened.submit, UserMessage(control=control))
