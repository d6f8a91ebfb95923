"""Automatic scores of an agent's answers.

    judge = Agent("judge", llm=…)
    Agent("writer", llm=…, score=AutoScore(by=judge))

A score is a note after its answer, which no agent sees; its `meta` has `score`.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, NamedTuple

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.agent import Agent, Upkeep
from stenolog.adapters.engine.journal.work import short_key
from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage
from stenolog.domain.lanes.state import address
from stenolog.projections.fold import fold

from .auto_context import check_by
from .compaction import ask_in_fork
from .forks import fork_of

JUDGE = (
    "Score the last answer of {agent} from 0 to 1, by how well it does what was asked. Answer with JSON "
    'alone: {"score": 0.5, "lacks": ["what it lacks"], "advice": "what would make it better"}'
)
SCORED = "score-"
"""The beginning of the ids of scores; the position of the answer follows."""


@dataclass(frozen=True)
class AutoScore(Upkeep):
    """Score for each answer of the agent that calls no tool.

    `by` is an agent, or the name of one of the team. `task` is what it is asked; `{agent}` is the agent's
    name. If the judge answers with a JSON object, that is kept, else the text.
    """

    by: Agent | str
    task: str = JUDGE

    def __post_init__(self) -> None:
        check_by(self.by)

    async def apply(self, conversation: Conversation, agent: str, worker: Agent) -> object:
        due = await asyncio.to_thread(lambda: conversation.fold(ANSWERS).due)
        judge = replace(worker, summary=None, memory=None, recall=None, score=None)
        for where, at in due.items():
            if where.partition("/")[0] == agent:
                await self._score(conversation, where, at, judge)
        return None

    async def _score(self, conversation: Conversation, where: str, at: int, judge: Agent) -> None:
        agent, _, task = where.partition("/")
        mark = short_key(sha256(f"{conversation.stream.key}/{where}/{at}".encode()).hexdigest())
        fork = await asyncio.to_thread(fork_of, conversation, at, f"{judge.name}~{mark}")
        text, meta = await ask_in_fork(fork, where, judge, self.task.replace("{agent}", agent))
        score = AssistantMessage(
            agent=agent,
            task=task,
            purpose="routing",
            in_context=False,
            cause=at,
            text=text,
            meta={**meta, "score": score_in(text)},
        )
        await asyncio.to_thread(conversation.submit, score, id=f"{SCORED}{at}")


def score_in(text: str) -> dict[str, Any]:
    """Return the JSON object in a judge's answer, else its text."""
    with suppress(ValueError, RecursionError):
        found = json.loads(text[text.find("{") : text.rfind("}") + 1])
        if isinstance(found, dict):
            return found
    return {"text": text}


class Answers(NamedTuple):
    """Position of each lane's last answer without a score."""

    due: dict[str, int] = {}  # noqa: RUF012


@fold(initial=Answers(), state=Answers, name="unscored-answers")
def ANSWERS(known: Answers, entry: Entry) -> Answers:
    """Note the answers that are to be scored."""
    match entry.event:
        case AssistantMessage(agent=agent, task=task, purpose="answer") as said:
            if said.text and not said.tool_calls:
                return Answers({**known.due, address(agent, task): entry.position})
        case AssistantMessage(cause=int(at)) if entry.id == f"{SCORED}{at}":
            return Answers({where: position for where, position in known.due.items() if position != at})
        case _:
            pass
    return known
