"""Making an answer anew, with a wish: in a fork that shares all that its agent had seen, and nothing after.

    entry = await regenerate(talk, 12, writer, "Shorter, please.")

The wish is said in the fork alone. The new answer then takes the place of the old one in the conversation, or
stays where it is, for whoever wants to compare.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from hashlib import sha256

from stenolog.adapters.conversation import Conversation
from stenolog.domain.entry import Entry
from stenolog.domain.errors import ConversationInUse, IllegalCommand, ModelFailed
from stenolog.domain.events import AssistantMessage, UserMessage
from stenolog.domain.state import address

from .agent import Agent
from .condensing import merged
from .delegate import mark_of, outcome_of
from .team import Team

WISH = "wish"
"""The id of the message that says what is to be changed, in its fork."""


async def regenerate(
    talk: Conversation, position: int, agent: Agent, wish: str = "", *, in_place: bool = True
) -> Entry:
    """Have the answer at a position made anew by `agent`, who said it, on the lane that it was said on.

    Gives the new answer's entry: in the conversation itself, in the place of the old one; or not `in_place`,
    in the fork, whose name it tells. Asked again with the same wish it gives what is there. What it has used
    is counted in the fork. Raises `IllegalCommand` where no answer of that agent is at the position, and
    `ModelFailed` where its model fails.
    """
    mark = mark_of(sha256(f"{talk.stream.key}/{position}/{wish}".encode()).hexdigest())
    old = await asyncio.to_thread(_answer, talk, position, agent.name)
    fork = await asyncio.to_thread(_fork, talk, old, position, f"{agent.name}~{mark}")
    made = await _made(fork, agent, old, wish)
    if not in_place:
        return made
    assert isinstance(made.event, AssistantMessage), "models give answers"
    said = replace(made.event, replaces=position, cause=None, usage=None, receipt=None, session="")
    link = await asyncio.to_thread(outcome_of, fork, fork.state().lane(address(old.agent, old.task)))
    anew = replace(said, meta={**said.meta, **link.meta})
    return await asyncio.to_thread(merged, talk, anew, f"regenerated-{mark}")


def _answer(talk: Conversation, position: int, agent: str) -> AssistantMessage:
    found = next(iter(talk.entries(position - 1, position)), None)
    if found is None or not isinstance(found.event, AssistantMessage) or found.event.agent != agent:
        raise IllegalCommand(f"{talk.name!r} at position {position}: expected an answer of {agent!r}")
    return found.event


def _fork(talk: Conversation, old: AssistantMessage, position: int, name: str) -> Conversation:
    """The fork from where the answer's request was made, which may be there from an earlier run."""
    try:
        return talk.fork(after=old.receipt.view if old.receipt else position - 1, name=name)
    except ConversationInUse:
        return talk.log[name]


async def _made(fork: Conversation, agent: Agent, old: AssistantMessage, wish: str) -> Entry:
    """The answer in the fork; where its lane has failed before, by a new attempt."""
    where = address(old.agent, old.task)
    team = Team([agent], join=False)
    team.options = replace(team.options, lane=where)
    if (await asyncio.to_thread(fork.state)).lane(where).status == "failed":
        await team.proceed(fork, old.agent, old.task)
    async for _ in team.run(fork, UserMessage(text=wish, to=[where]) if wish else None, id=WISH):
        pass
    made = [entry for entry in fork.entries() if _is_of(entry, old)]
    if fork.state().lane(where).status != "idle" or not made:
        raise ModelFailed("other", f"{where} has not answered in {fork.name!r}")
    return made[-1]


def _is_of(entry: Entry, old: AssistantMessage) -> bool:
    match entry.event:
        case AssistantMessage(purpose="answer", agent=old.agent, task=old.task):
            return True
        case _:
            return False
