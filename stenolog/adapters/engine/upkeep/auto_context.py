"""Automatic summaries and memories for an agent's context.

    scribe = Agent("scribe", llm=…)
    Agent("coder", llm=…, policy=SummaryAndRecent(20), summary=AutoSummary(by=scribe))
    Agent("coder", llm=…, policy=MemoriesAndRecent(20), memory=AutoMemory(by=scribe, every=10))

Both work in a fork, so no other agent sees how they were made. An interrupted run continues in the fork.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NamedTuple

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.agent import Agent, Upkeep
from stenolog.adapters.engine.journal.work import short_key
from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError
from stenolog.domain.events import UNCHANGED, AssistantMessage, ModeSwitch
from stenolog.domain.lanes.turn_taking import is_pass
from stenolog.domain.policy import FullHistory, SummaryAndRecent, policy
from stenolog.domain.values import TurnPolicy
from stenolog.projections.fold import fold

from .compaction import TASK, ask_in_fork, compact
from .forks import fork_of

KEEP = 20
REMEMBER = (
    "Write down what {agent} must not forget of this conversation: what the user wants, what was decided and "
    "why, names and numbers. What was kept before and still holds belongs to it. One fact a line; answer "
    "with the facts alone."
)


@dataclass(frozen=True)
class AutoSummary(Upkeep):
    """Summary of the older messages, made once the agent's policy cuts some of them.

    `over`: also if a request has more tokens than that; a limit that the provider has named counts too.
    `keep`: the number of last messages that stay; None:
    half of the policy's window, or 20. `by`: an agent, or the name of one of the team; None: the agent
    itself, without tools. `task`: what it is asked.
    """

    by: Agent | str | None = None
    over: int | None = None
    keep: int | None = None
    task: str = TASK

    def __post_init__(self) -> None:
        if self.by is not None:
            check_by(self.by)
        _check_count("over", self.over)
        _check_count("keep", self.keep)

    async def apply(self, conversation: Conversation, agent: str, worker: Agent) -> object:
        card = (await asyncio.to_thread(conversation.settings)).card_of(agent)
        chosen = policy(card.policy)
        window, step = chosen.history.window
        # Half of the window: a summary for each message that falls out of it would cost a call each time.
        keep = self.keep or (max(1, window // 2) if window else KEEP)
        # A backend that remembers is sent little; what counts is what a new session would be sent.
        begun = SummaryAndRecent(window, step) if window else FullHistory()
        measured = chosen | begun if chosen.history.delta else None
        plain = replace(worker, summary=None, memory=None, recall=None, score=None)
        for where in await asyncio.to_thread(_lanes, conversation, agent):
            least = await asyncio.to_thread(_untold, conversation, where) if chosen.history.delta else 1
            await compact(
                conversation,
                where,
                plain,
                over=self.over,
                keep=max(keep, least),
                task=self.task,
                policy=measured,
                least=least,
                limit=card.context_limit,
            )
        return None


@dataclass(frozen=True)
class AutoMemory(Upkeep):
    """Facts that the agent keeps, replaced after every `every` of its answers; passes do not count.

    `by` is an agent, or the name of one of the team. `task` is what it is asked; `{agent}` is the agent's
    name.
    """

    by: Agent | str
    every: int = 10
    task: str = REMEMBER

    def __post_init__(self) -> None:
        check_by(self.by)
        _check_count("every", self.every)

    async def apply(self, conversation: Conversation, agent: str, worker: Agent) -> object:
        due = await asyncio.to_thread(lambda: conversation.fold(MEMORIES).lane(agent))
        if due.turns < self.every:
            return None
        mark = short_key(sha256(f"{conversation.stream.key}/{agent}/{due}".encode()).hexdigest())
        fork = await asyncio.to_thread(fork_of, conversation, due.answered, f"{worker.name}~{mark}")
        writer = replace(worker, summary=None, memory=None, recall=None, score=None)
        text, meta = await ask_in_fork(fork, agent, writer, self.task.replace("{agent}", agent))
        summary = AssistantMessage(
            agent=agent, purpose="memory", text=text, meta=meta, replaces=due.memory or None
        )
        return (await asyncio.to_thread(conversation.submit, summary, id=f"{WRITTEN}{mark}"))[0]


WRITTEN = "memory-"
"""The beginning of the ids of memories that were written automatically."""


class LaneMemories(NamedTuple):
    """Position of an agent's last automatic memory, its answers since, and the position of the last."""

    memory: int = 0
    turns: int = 0
    answered: int = 0


class Memories(NamedTuple):
    """All agents' memories, and the word that passes a turn."""

    lanes: dict[str, LaneMemories] = {}  # noqa: RUF012
    pass_token: str = ""

    def lane(self, agent: str) -> LaneMemories:
        """Return those of an agent."""
        return self.lanes.get(agent, LaneMemories())


@fold(initial=Memories(), state=Memories, name="automatic-memories")
def MEMORIES(known: Memories, entry: Entry) -> Memories:
    """Count each agent's answers since its last automatic memory."""
    match entry.event:
        case ModeSwitch(turns=turns, context_from=start, agents=agents):
            if isinstance(turns, TurnPolicy):
                known = known._replace(pass_token=str(turns.options.get("pass_token", "")))
            if start is UNCHANGED:
                return known
            kept = {name: lane for name, lane in known.lanes.items() if agents and name not in agents}
            return known._replace(lanes=kept)
        case AssistantMessage(agent=agent, purpose="memory") if entry.id.startswith(WRITTEN):
            first = known.lane(agent).memory or entry.position
            return known._replace(lanes=known.lanes | {agent: LaneMemories(first)})
        case AssistantMessage(agent=agent, purpose="answer", replaces=None, task="") as said:
            if said.tool_calls or (known.pass_token and is_pass(said, known.pass_token)):
                return known
            lane = known.lane(agent)
            lane = lane._replace(turns=lane.turns + 1, answered=entry.position)
            return known._replace(lanes=known.lanes | {agent: lane})
        case _:
            return known


def _lanes(conversation: Conversation, agent: str) -> list[str]:
    own, *tasks = conversation.state().lanes_of(agent)
    waiting = [lane.address for lane in tasks if lane.status == "awaiting_llm"]
    return [own.address] * bool(own.asked or own.answered or not tasks) + waiting


def _untold(conversation: Conversation, where: str) -> int:
    """Return the number of last entries that a live session has not seen; 1 if none lives."""
    agent, _, task = where.partition("/")
    if not any(run.rule == "delivered" for run in conversation.request(agent, task=task).omissions):
        return 1
    state = conversation.state()
    return max(1, state.position - state.lane(where).seen)


def check_by(by: object) -> None:
    """Raise `CallerError` for what is no agent and no name."""
    if not isinstance(by, Agent | str) or not by:
        raise CallerError(f"by: expected an agent, or the name of one of the team, found {by!r:.100}")


def _check_count(name: str, given: object) -> None:
    is_count = isinstance(given, int) and not isinstance(given, bool) and given > 0
    if given is not None and not is_count:
        raise CallerError(f"{name}: expected a whole number from 1 on, found {given!r:.100}")
