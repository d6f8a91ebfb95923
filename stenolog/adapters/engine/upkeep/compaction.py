"""Compaction: another agent summarises the middle of a conversation, in a fork.

    async for happened in team.run(conversation, message):
        await compact(conversation, "coder", Agent("summariser", llm=…), over=16_000)

The log keeps every word, and a later summary may replace this one. An interrupted call continues in the fork.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from sys import maxsize
from typing import Any, NamedTuple

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.agent import Agent
from stenolog.adapters.engine.delegate import worker_output
from stenolog.adapters.engine.journal.work import short_key
from stenolog.adapters.engine.runner.cuts import last_cut, last_summarised
from stenolog.adapters.engine.team.team import Team
from stenolog.domain.entry import Entry
from stenolog.domain.errors import IllegalCommandError, ModelError
from stenolog.domain.events import AssistantMessage, UserMessage
from stenolog.domain.lanes.state import LaneState, summary_of, without
from stenolog.domain.policy import FullHistory, PolicyLike
from stenolog.domain.policy import policy as policy_of
from stenolog.domain.settings import DEFAULT_SCOPE
from stenolog.domain.values import PositionRange
from stenolog.projections.requests import LaneId, Request
from stenolog.projections.views.context import Context, context, middle

from .forks import fork_of, hide_spans, spans_at

TASK = (
    "Summarise the conversation up to here for whoever goes on with it: what was asked, what was found out "
    "and decided, with names and numbers, and what is still open. Answer with the summary alone."
)
ASKED = "condense"
"""The id of the message that asks for a summary, in its fork."""


class Away(NamedTuple):
    """Positions out of context now: before `context_from`, hidden, or replaced by an edit."""

    context_from: int
    hides: tuple[PositionRange, ...]


class CompactionPlan(NamedTuple):
    """Spans to summarise, positions hidden from the writer, and that of the last ended summary."""

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
    policy: PolicyLike = None,
    least: int = 1,
    to: Sequence[str] = (),
    limit: int = 0,
) -> Entry | None:
    """Summarise the middle if the agent's request has more than `over` tokens, or its policy cut it.

    The last `keep` messages stay; fewer, down to `least`, if these are too large. Open calls stay too, and
    what was last said to the agent, what the system says, pinned entries, and questions that others have not
    answered. `over` None: only after a cut. `limit` is the most tokens that the model takes (0: not known):
    it counts as `over`, and what stays is within it. `policy` replaces the agent's own for measuring.
    `agent` is an agent, or the address of a lane. The summariser reads what that lane may see; a window of
    its own policy does not count. The summary hides what was read, and only from that lane and those in `to`.

    Returns the summary's entry, or None if nothing was due. Raises `ModelError` if it fails, and
    `IllegalCommandError` if part of it was summarised or hidden meanwhile.
    """
    plan = await asyncio.to_thread(_plan, conversation, agent, over, keep, policy, least, limit)
    if plan is None:
        return None
    # The plan names the fork, so the same compaction that was killed goes on in the fork that is there.
    whole = f"{conversation.stream.key}/{agent}/{summariser.name}/{task}/{plan}"
    mark = short_key(sha256(whole.encode()).hexdigest())
    fork = await asyncio.to_thread(fork_of, conversation, plan.last, f"{summariser.name}~{mark}")
    await asyncio.to_thread(hide_spans, fork, *plan.away)
    reader = await asyncio.to_thread(reader_of, fork, agent, summariser)
    await asyncio.to_thread(_tell, fork, conversation, agent, reader, plan.last)
    merged = await ask_in_fork(fork, agent, _reading_all(summariser), task)
    if (
        # While the summariser worked, a person may have hidden some of it: the summary would bring it back.
        await asyncio.to_thread(
            lambda: _away(context([*conversation.entries()]), agent.partition("/")[0], plan.last)
        )
        != plan.away
    ):
        raise IllegalCommandError(
            f"{conversation.name!r}: what is in context has changed while it was summarised"
        )
    name, _, lane_task = agent.partition("/")
    summary = AssistantMessage(
        agent=name,
        task=lane_task,
        purpose="summary",
        covers=await asyncio.to_thread(_sent, fork, plan.spans),
        to=to,
        text=merged.text,
        meta=merged.meta,
    )
    return (await asyncio.to_thread(conversation.submit, summary, id=f"condensed-{mark}"))[0]


def _plan(
    conversation: Conversation,
    agent: str,
    over: int | None,
    keep: int,
    policy: PolicyLike,
    least: int,
    limit: int,
) -> CompactionPlan | None:
    """Return the plan of the summary due now; None if none is due."""
    name, _, task = agent.partition("/")
    request = conversation.request(name, task=task, policy=policy)
    most = min(filter(None, (over, limit)), default=over)
    is_large = most is not None and request.size.tokens > most
    # What was cut before the end of a summary is in that summary.
    ended = last_summarised(conversation.state(), agent)
    start = conversation.settings().context_from_of(name)
    cut = last_cut(request, start)
    if not is_large and cut <= ended:
        return None
    log = [*conversation.entries()]
    spans = middle(log, agent, keep)
    # The last messages alone may be too large, or cut; then fewer of them stay.
    while keep > least and (
        not spans or spans[-1].last < cut or _tokens_beside(request, spans) > (limit or maxsize)
    ):
        keep = max(keep // 2, least)
        spans = middle(log, agent, keep) or spans
    if not spans:
        return None
    now = context(log)
    # The last summary that has ended is part of the plan: after it, the same spans need a new fork.
    holding = {summary.position for summary in now.summaries}
    past = (e.position for e in log if summary_of(e.position, e.event) and e.position not in holding)
    return CompactionPlan(spans, _away(now, name, spans[-1].last), max(past, default=0))


def _tokens_beside(request: Request, spans: Sequence[PositionRange]) -> int:
    """Return the tokens of a request beside the spans."""
    covered = [each for each in request.parts if any(p in span for p in each.positions for span in spans)]
    return request.tokens - sum(part.tokens_out for part in covered)


def _away(now: Context, agent: str, last: int) -> Away:
    since = sorted(old for old, edit in now.replaced_by.items() if old <= last < edit)
    hides = (*spans_at(now.settings.hides, last), *(PositionRange(first=old, last=old) for old in since))
    return Away(now.settings.context_from_of(agent), hides)


def _reading_all(summariser: Agent) -> Agent:
    has_window = policy_of(summariser.policy).history.window[0] is not None
    return (
        replace(summariser, policy=policy_of(summariser.policy, FullHistory())) if has_window else summariser
    )


def _sent(fork: Conversation, spans: Sequence[PositionRange]) -> tuple[PositionRange, ...]:
    """Return the part of the spans that the summariser was sent. Raises `ModelError` if there is none.

    Its own budget may have cut some of them, and an agent's notes are only its own.
    """
    answers = [entry for entry in fork.entries() if isinstance(entry.event, AssistantMessage)]
    position, answer = next(
        (e.position, e.event) for e in reversed(answers) if getattr(e.event, "receipt", None)
    )
    assert isinstance(answer, AssistantMessage), "see above"
    reader = LaneId(answer.agent, answer.task)
    notes = [
        PositionRange(first=entry.position, last=entry.position)
        for entry in answers
        if getattr(entry.event, "purpose", "") in ("memory", "routing") and not reader.wrote(entry.event)
    ]
    covers = without(spans, notes)
    summary = summary_of(position, replace(answer, covers=covers), fork.state().summaries) if covers else None
    if summary is None:
        raise ModelError("other", "no summary: its writer was sent nothing of what it was to summarise")
    return summary.spans


class Made(NamedTuple):
    """Text written in a fork, and the link to it."""

    text: str
    meta: dict[str, Any]


def reader_of(fork: Conversation, where: str, writer: Agent) -> LaneState:
    """Return the lane as which a writer reads: its own, if that sees as much."""
    agent, _, task = where.partition("/")
    # A writer of another name would not be shown an agent's private messages.
    is_open = fork.settings().scope_of(agent) == DEFAULT_SCOPE
    return LaneState(writer.name) if is_open else LaneState(agent, task)


def _tell(fork: Conversation, conversation: Conversation, where: str, reader: LaneState, last: int) -> None:
    """Give the reader the lane's summaries as its own: the fork may end before they were made."""
    known = {summary.position for summary in fork.state().summaries if summary.is_for(reader.address)}
    for summary in conversation.state().summaries:
        id = f"told-{summary.position}"
        is_new = summary.position not in known and not fork.entry_by_id(id)
        if summary.is_for(where) and summary.last <= last and is_new:
            event = conversation.entry(summary.position).event
            assert isinstance(event, AssistantMessage), "summaries are of agents"
            copied = AssistantMessage(
                agent=reader.agent,
                task=reader.task,
                purpose="summary",
                covers=summary.spans,
                parts=event.parts,
            )
            fork.append(copied, id=id, expected=fork.position)


async def ask_in_fork(fork: Conversation, where: str, writer: Agent, task: str) -> Made:
    """Have a task about a lane done in a fork, by a writer that sees what the lane sees.

    A writer that failed before is asked once more.
    """
    lane = await asyncio.to_thread(reader_of, fork, where, writer)
    team = Team([replace(writer, name=lane.agent)], join=False)
    team.options = replace(team.options, lane=lane.address)
    message = UserMessage(text=task, to=[lane.address])
    # From an earlier call with the same plan, whose model failed.
    if (await asyncio.to_thread(fork.state)).lane(lane.address).status == "failed":
        await team.resume(fork, lane.agent, lane.task)
    async for _ in team.run(fork, message, id=ASKED):
        pass
    output = await asyncio.to_thread(worker_output, fork, lane)
    text = str(output.content[0])
    if output.is_error or not text.strip():
        raise ModelError("other", f"no summary: {text or 'it was empty'}")
    return Made(text, {**output.meta})
