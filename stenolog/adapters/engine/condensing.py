"""Condensing: another agent reads the middle of a conversation in a fork, and its summary takes that place.

    async for happened in team.run(talk, message):
        await condense(talk, "coder", Agent("summariser", llm=…), over=16_000)

Nothing is lost or copied: the log keeps every word, the fork shares them, and a later summary may take the
place of this one. Killed in between, the next call goes on with the fork that is there.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from hashlib import sha256
from typing import Any

from stenolog.adapters.conversation import Conversation
from stenolog.domain.decide import decide
from stenolog.domain.entry import Entry
from stenolog.domain.errors import ConversationInUse, ModelFailed, StaleAppend
from stenolog.domain.events import AssistantMessage, UserMessage
from stenolog.domain.settings import DEFAULT_SCOPE
from stenolog.domain.state import Lane
from stenolog.domain.values import Span
from stenolog.projections.condensing import middle
from stenolog.projections.requests.rules import CUTS

from .agent import Agent
from .delegate import mark_of, outcome_of
from .team import Team

TASK = (
    "Summarise the conversation up to here for whoever goes on with it: what was asked, what was found out "
    "and decided, with names and numbers, and what is still open. Answer with the summary alone."
)
ASKED = "condense"
"""The id of the message that asks for a summary, in its fork."""


async def condense(
    talk: Conversation,
    agent: str,
    summariser: Agent,
    *,
    over: int | None = None,
    keep: int = 20,
    task: str = TASK,
) -> Entry | None:
    """Have the middle summarised once the agent's request has more than `over` tokens, or its policy cut it.

    The last `keep` messages stay, and so do open calls, what was last said to the agent, what the system
    says, and what the agent's policy pins. `over` None: only once something was cut. The summariser reads
    what the agent may see. Gives the summary's entry; None where nothing was to be done. Raises `ModelFailed`
    where it fails, `IllegalCommand` where somebody else has summarised a part of it meanwhile.
    """
    spans = await asyncio.to_thread(_spans, talk, agent, over, keep)
    if not spans:
        return None
    mark = mark_of(sha256(f"{talk.stream.key}/{spans[0].first}-{spans[-1].last}".encode()).hexdigest())
    fork = await asyncio.to_thread(_fork, talk, spans[-1].last, f"{summariser.name}~{mark}")
    reader = await asyncio.to_thread(_reader, fork, agent, summariser)
    said = UserMessage(text=task, author=agent, author_kind="agent", to=[reader.name])
    text, meta = await _asked(fork, reader, said)
    summary = AssistantMessage(agent=agent, purpose="summary", covers=spans, text=text, meta=meta)
    return await asyncio.to_thread(merged, talk, summary, f"condensed-{mark}")


def _spans(talk: Conversation, agent: str, over: int | None, keep: int) -> tuple[Span, ...]:
    """What is to be summarised now; nothing while the agent's request is small enough and nothing was cut."""
    request = talk.request(agent)
    is_large = over is not None and request.size.tokens > over
    if is_large or any(run.rule in CUTS for run in request.dropped):
        return middle(talk.entries(), agent, keep)
    return ()


def _fork(talk: Conversation, last: int, name: str) -> Conversation:
    """The fork that the summary is written in, which may be there from an earlier run."""
    try:
        return talk.fork(after=last, name=name)
    except ConversationInUse:
        return talk.log[name]


def _reader(fork: Conversation, agent: str, summariser: Agent) -> Agent:
    """The summariser; in the agent's place where that is shown only what concerns it."""
    is_open = fork.settings().scope_of(agent) == DEFAULT_SCOPE
    return summariser if is_open else replace(summariser, name=agent)


async def _asked(fork: Conversation, summariser: Agent, said: UserMessage) -> tuple[str, dict[str, Any]]:
    """The summary, and the link to the fork; of a summariser that has failed before, a new attempt."""
    team, lane = Team([summariser], join=False), Lane(summariser.name)
    team.options = replace(team.options, lane=lane.address)
    if (await asyncio.to_thread(fork.state)).lane(lane.address).status == "failed":
        await team.proceed(fork, lane.agent)
    async for _ in team.run(fork, said, id=ASKED):
        pass
    made = await asyncio.to_thread(outcome_of, fork, lane)
    text = str(made.content[0])
    if made.is_error or not text.strip():
        raise ModelFailed("other", f"no summary: {text or 'it was empty'}")
    return text, {**made.meta}


def merged(talk: Conversation, made: AssistantMessage, id: str) -> Entry:
    """What was made in a fork, in the conversation itself, where it may take that place."""
    while True:
        state = talk.state()
        decide(state, made)
        try:
            return talk.append(made, id=id, expected=state.position)
        except StaleAppend:
            continue
