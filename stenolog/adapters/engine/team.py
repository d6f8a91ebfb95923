"""A team: agents that work on conversations, from whatever the log says is to be done next.

team = Team([Agent("coder", llm=OpenAIChat("gpt-5.2"), tools=[read_file])])
async for happened in team.run(log["demo"], "Find the bug"):
    print(happened)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from stenolog.adapters.asynchronous import AsyncConversation
from stenolog.adapters.conversation import Conversation
from stenolog.adapters.tools.collect import as_runnables, opened
from stenolog.adapters.tools.port import Runnable
from stenolog.domain.decide import decide
from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError, StaleAppend
from stenolog.domain.events import UNCHANGED, ModeSwitch, UserMessage
from stenolog.domain.lifecycle import BUSY
from stenolog.domain.values import CallRef, Control, Turns

from .agent import Agent
from .delegate import Delegate
from .happenings import Happening
from .options import Options
from .queueing import queued
from .runner import Runner
from .standing import Standing

if TYPE_CHECKING:
    from stenolog.domain.turns import Rule

Talk: TypeAlias = Conversation | AsyncConversation
OnInput: TypeAlias = Literal["next", "queue", "cancel"]
Message: TypeAlias = str | UserMessage


class Team:
    """Agents, and the rule by which they take turns. One team may work on many conversations at once.

    `turns` None leaves the conversation's rule as it is. `mode` is that of conversations that begin with it.
    `join`: its agents become members, whom a message that names nobody is for. The other `options` are those
    of `Options`: `on_unknown`, `parallel`, `mentions`, `prices`, `world`.
    """

    def __init__(
        self,
        agents: Sequence[Agent],
        *,
        turns: Turns | Rule | None = None,
        mode: str = "agent",
        join: bool = True,
        **options: Any,
    ) -> None:
        self.agents = {agent.name: agent for agent in agents}
        if len(self.agents) != len(agents):
            raise CallerError(f"two agents have the same name: {[agent.name for agent in agents]}")
        self.turns = turns
        self.mode = mode
        self.join = join
        self.options = Options(**options)
        self._given = options
        self._tools: dict[str, dict[str, Runnable]] | None = None
        self._opening = asyncio.Lock()

    async def __aenter__(self) -> Team:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give back what models and tools hold: connections, processes. The team may be used again."""
        self._tools = None
        for agent in self.agents.values():
            for held in (*([agent.llm] if agent.llm else []), *agent.tools):
                if hasattr(held, "close"):
                    await held.close()

    async def run(
        self,
        talk: Talk,
        message: Message | None = None,
        *,
        to: Iterable[str] = (),
        on_input: OnInput = "next",
    ) -> AsyncGenerator[Happening, None]:
        """Say something, if anything is given, and go on until every lane waits for a person or has stopped.

        Gives each entry as it is appended, by whomever, and each piece of an answer as it streams. Whoever
        stops listening stops the run: what was under way is in the log, and the next run goes on from there.
        Raises `LaterRelease`, `Diverged`, `StoreBusy`, `StoreFailed`.
        """
        async with self._runner(talk, None if message is None else _message(message, to), on_input) as runner:
            async for happened in runner.run():
                yield happened

    async def advance(self, talk: Talk) -> list[Entry]:
        """Do one effect, and give what was appended: nothing where there is nothing to do now."""
        async with self._runner(talk) as runner:
            return await runner.advance()

    async def say(
        self, talk: Talk, message: Message, *, to: Iterable[str] = (), on_input: OnInput = "next"
    ) -> list[Entry]:
        """Say something while a run may be under way, here or elsewhere.

        `on_input`: "next", the next step of whoever works hears it; "queue", it is heard when all have come
        to rest; "cancel", what is under way is stopped first.
        """
        conversation, tools = await _conversation(talk), await self.tools()
        return await asyncio.to_thread(
            lambda: self._begin(Standing(conversation), tools, _message(message, to), on_input)
        )

    async def cancel(self, talk: Talk, agent: str = "", task: str = "") -> list[Entry]:
        """Stop a lane, or all that are at work. The log says so, wherever the run is."""
        return await _control(talk, Control(action="cancel", agent=agent, task=task))

    async def proceed(self, talk: Talk, agent: str = "", task: str = "") -> list[Entry]:
        """Tell a lane that has failed, or all of them, to go on."""
        return await _control(talk, Control(action="continue", agent=agent, task=task))

    async def approve(self, talk: Talk, call: CallRef) -> list[Entry]:
        """Approve a call."""
        return await _control(talk, Control(action="approve", call=call))

    async def refuse(self, talk: Talk, call: CallRef) -> list[Entry]:
        """Refuse a call; its agent is told."""
        return await _control(talk, Control(action="refuse", call=call))

    async def tools(self) -> dict[str, dict[str, Runnable]]:
        """The tools of each agent by name; connects to what they come from."""
        async with self._opening:
            if self._tools is None:
                self._tools = {name: await self._tools_of(agent) for name, agent in self.agents.items()}
            return self._tools

    async def _tools_of(self, agent: Agent) -> dict[str, Runnable]:
        tools = await opened(as_runnables(agent.tools))
        return {
            name: tool.under(agent, self._given) if isinstance(tool, Delegate) else tool
            for name, tool in tools.items()
        }

    @asynccontextmanager
    async def _runner(
        self, talk: Talk, message: UserMessage | None = None, on_input: OnInput = "next"
    ) -> AsyncGenerator[Runner, None]:
        tools = await self.tools()
        runner = Runner(await _conversation(talk), self.agents, tools, self.options)
        try:
            await runner.open(lambda standing: self._begin(standing, tools, message, on_input))
            yield runner
        finally:
            await runner.close()

    def _begin(
        self,
        standing: Standing,
        tools: dict[str, dict[str, Runnable]],
        message: UserMessage | None,
        on_input: OnInput,
    ) -> list[Entry]:
        """See that the agents take part, and say the message."""
        self._set_up(standing, tools)
        return [] if message is None else self._say(standing, message, on_input)

    def _set_up(self, standing: Standing, tools: dict[str, dict[str, Runnable]]) -> None:
        """Record the agents' cards and the turn rule, where the conversation has others."""
        while True:
            switch = self._changes(standing, tools)
            try:
                if switch != ModeSwitch():
                    standing.append(switch)
                return
            except StaleAppend:
                standing.catch_up()

    def _changes(self, standing: Standing, tools: dict[str, dict[str, Runnable]]) -> ModeSwitch:
        settings, state = standing.settings, standing.state
        cards = {
            name: agent.card([tool.spec for tool in tools[name].values()])
            for name, agent in self.agents.items()
        }
        turns = self.turns if self.turns is None or isinstance(self.turns, Turns) else self.turns.turns
        return ModeSwitch(
            mode=UNCHANGED if state.position else self.mode,
            cards={name: card for name, card in cards.items() if settings.cards.get(name) != card},
            joins=[
                name
                for name in self.agents
                if self.join and name not in state.members and state.lane(name).status != "closed"
            ],
            turns=UNCHANGED if turns is None or settings.turns == turns else turns,
        )

    def _say(self, standing: Standing, message: UserMessage, on_input: OnInput) -> list[Entry]:
        while True:
            state = standing.state
            at_work = any(lane.status in BUSY for lane in state.lanes.values())
            said = queued(message) if at_work and on_input == "queue" else message
            cancel = UserMessage(control=Control(action="cancel"))
            stops = decide(state, cancel) if at_work and on_input == "cancel" else ()
            try:
                return standing.append(*stops, *decide(state, said))
            except StaleAppend:
                standing.catch_up()


async def _conversation(talk: Talk) -> Conversation:
    return talk if isinstance(talk, Conversation) else await talk.sync()


async def _control(talk: Talk, control: Control) -> list[Entry]:
    conversation = await _conversation(talk)
    return await asyncio.to_thread(conversation.submit, UserMessage(control=control))


def _message(message: Message, to: Iterable[str]) -> UserMessage:
    if isinstance(message, UserMessage):
        return message
    return UserMessage(text=message, to=list(to))
