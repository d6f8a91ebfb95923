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
from typing import Any, NamedTuple

from stenolog.adapters.log import Conversation
from stenolog.domain.entry import Entry
from stenolog.domain.errors import IllegalCommandError, ModelError
from stenolog.domain.events import AssistantMessage, UserMessage
from stenolog.domain.settings import DEFAULT_SCOPE
from stenolog.domain.state import LaneState
from stenolog.domain.values import PositionRange
from stenolog.projections.compaction import middle
from stenolog.projections.context import Context, context, summary_of
from stenolog.projections.requests.rules import CUTS

from .agent import Agent
from .delegate import worker_output
from .effect_names import short_key
from .forks import at, fork_of, hidden, merged
from .team import Team

TASK = (
    "Summarise the conversation up to here for whoever goes on with it: what was asked, what was found out "
    "and decided, with names and numbers, and what is still open. Answer with the summary alone."
)
ASKED = "condense"
"""The id of the message that asks for a summary, in its fork."""


class Away(NamedTuple):
    """The positions out of context now: before `context_from`, hidden, or replaced by an edit."""

    context_from: int
    hides: tuple[PositionRange, ...]


class CompactionPlan(NamedTuple):
    """The spans to summarise, the positions hidden from the writer, and that of the last ended summary."""

    spans: tuple[PositionRange, ...]
    away: Away
    ended: int

    @property
    def last(self) -> int:
        """The last position that it is to cover."""
        return self.spans[-1].last


async def compact(
    conversation: Conversation,
    agent: str,
    summariser: Agent,
    *,
    over: int | None = None,
    keep: int = 20,
    task: str = TASK,
) -> Entry | None:
    """Have the middle summarised once the agent's request has more than `over` tokens, or its policy cut it.

    The last `keep` messages stay (fewer where these alone are too large), and so do open calls, what was last
    said to the agent, what the system says, what the agent's policy pins, and what others were last asked and
    have not answered. `over` None: only once something was cut. The summariser reads what the agent may see,
    as it is in context now. Gives the summary's entry; None where nothing was to be done. Raises `ModelError`
    where it fails, `IllegalCommandError` where a part of it was summarised, or taken out of context,
    meanwhile.
    """
    plan = await asyncio.to_thread(_plan, conversation, agent, over, keep)
    if plan is None:
        return None
    whole = f"{conversation.stream.key}/{agent}/{summariser.name}/{task}/{plan}"
    mark = short_key(sha256(whole.encode()).hexdigest())
    fork = await asyncio.to_thread(fork_of, conversation, plan.last, f"{summariser.name}~{mark}")
    await asyncio.to_thread(hidden, fork, *plan.away)
    reader = await asyncio.to_thread(_reader, fork, agent, summariser)
    said = UserMessage(text=task, author=agent, author_kind="agent", to=[reader.name])
    text, meta = await _ask_summariser(fork, reader, said)
    if (
        await asyncio.to_thread(lambda: _away(context([*conversation.entries()]), agent, plan.last))
        != plan.away
    ):
        raise IllegalCommandError(
            f"{conversation.name!r}: what is in context has changed while it was summarised"
        )
    summary = AssistantMessage(agent=agent, purpose="summary", covers=plan.spans, text=text, meta=meta)
    return await asyncio.to_thread(merged, conversation, summary, f"condensed-{mark}")


def _plan(conversation: Conversation, agent: str, over: int | None, keep: int) -> CompactionPlan | None:
    """Return the plan of the summary due now; None if none is due.

    A summary is due if the agent's request is too large or was cut, and has a middle part to summarise.
    """
    request = conversation.request(agent)
    is_large = over is not None and request.size.tokens > over
    if not is_large and not any(run.rule in CUTS for run in request.dropped):
        return None
    log = [*conversation.entries()]
    spans = middle(log, agent, keep)
    while not spans and is_large and keep > 1:
        keep //= 2
        spans = middle(log, agent, keep)
    if not spans:
        return None
    now = context(log)
    holding = {summary.position for summary in now.summaries}
    ended = (e.position for e in log if summary_of(e.position, e.event) and e.position not in holding)
    return CompactionPlan(spans, _away(now, agent, spans[-1].last), max(ended, default=0))


def _away(now: Context, agent: str, last: int) -> Away:
    """Return the fork's positions that are out of context by now, though they were in context at `last`."""
    since = sorted(old for old, edit in now.replaced_by.items() if old <= last < edit)
    hides = (*at(now.settings.hides, last), *(PositionRange(first=old, last=old) for old in since))
    return Away(now.settings.context_from_of(agent), hides)


def _reader(fork: Conversation, agent: str, summariser: Agent) -> Agent:
    """The summariser; in the agent's place where that is shown only what concerns it."""
    is_open = fork.settings().scope_of(agent) == DEFAULT_SCOPE
    return summariser if is_open else replace(summariser, name=agent)


async def _ask_summariser(
    fork: Conversation, summariser: Agent, said: UserMessage
) -> tuple[str, dict[str, Any]]:
    """The summary, and the link to the fork; of a summariser that has failed before, a new attempt."""
    team, lane = Team([summariser], join=False), LaneState(summariser.name)
    team.options = replace(team.options, lane=lane.address)
    if (await asyncio.to_thread(fork.state)).lane(lane.address).status == "failed":
        await team.resume(fork, lane.agent)
    async for _ in team.run(fork, said, id=ASKED):
        pass
    made = await asyncio.to_thread(worker_output, fork, lane)
    text = str(made.content[0])
    if made.is_error or not text.strip():
        raise ModelError("other", f"no summary: {text or 'it was empty'}")
    return text, {**made.meta}
