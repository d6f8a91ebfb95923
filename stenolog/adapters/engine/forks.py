"""Forks in which an agent works: a summary of the middle of a conversation, or an answer made anew.

    async for happened in team.run(conversation, message):
        await compact(conversation, "coder", Agent("summariser", llm=…), over=16_000)

Nothing is lost or copied: the log keeps every word, the fork shares them, and a later summary may take the
place of this one. Killed in between, the next call goes on with the fork that is there.

    entry = await regenerate(conversation, 12, writer, "Shorter, please.")

The wish is said in the fork alone, with the answer that it is about. The new answer then takes the place of
the old one in the conversation, or stays where it is, for whoever wants to compare.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Any, NamedTuple

from stenolog.adapters.log import Conversation
from stenolog.domain.decide import decide
from stenolog.domain.entry import Entry
from stenolog.domain.errors import (
    ConversationExistsError,
    IllegalCommandError,
    ModelError,
    PositionNotFoundError,
    VersionConflictError,
)
from stenolog.domain.events import AssistantMessage, ModeSwitch, UserMessage
from stenolog.domain.policy import PolicyLike
from stenolog.domain.settings import DEFAULT_SCOPE, Settings
from stenolog.domain.state import LaneState
from stenolog.domain.summaries import summary_of
from stenolog.domain.values import PositionRange
from stenolog.projections.entry_context import Context, context, middle

from .agent import Agent
from .cuts import last_cut
from .delegate import worker_output
from .effect_names import short_key
from .team import Team


def fork_of(conversation: Conversation, after: int, name: str) -> Conversation:
    """Return the fork of that name."""
    # It may be there from an earlier run that was killed.
    with suppress(ConversationExistsError):
        return conversation.fork(after=after, name=name)
    return conversation.log[name]


def spans_at(spans: Iterable[PositionRange], last: int) -> tuple[PositionRange, ...]:
    """Return the spans up to a position."""
    return tuple(PositionRange(first=s.first, last=min(s.last, last)) for s in spans if s.first <= last)


def hide_spans(fork: Conversation, context_from: int, hides: tuple[PositionRange, ...]) -> None:
    """Hide from all agents the entries that are out of context: before `context_from`, or in `hides`."""
    start = min(context_from, fork.position + 1)
    there = fork.settings()
    if (there.context_from, there.hides) != (start, hides):
        fork.submit(ModeSwitch(context_from=start or None, hides=hides))


def merge_answer(conversation: Conversation, made: AssistantMessage, id: str) -> Entry:
    """Append to the conversation a message made in a fork, if its state still allows the message."""
    while True:
        state = conversation.state()
        # Decided anew after each conflict: what came in between may forbid the message.
        decide(state, made)
        with suppress(VersionConflictError):
            return conversation.append(made, id=id, expected=state.position)


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
    policy: PolicyLike = None,
    least: int = 1,
) -> Entry | None:
    """Have the middle summarised once the agent's request has more than `over` tokens, or its policy cut it.

    The last `keep` messages stay (fewer, down to `least`, where these alone are too large), and so do open
    calls, what was last said to the agent, what the system says, what the agent's policy pins, and what
    others were last asked and have not answered. `over` None: only once something was cut. `policy`, where
    given, is the one that the request is measured under, in the place of the agent's own. The summariser
    reads what the agent may see, as it is in context now. Gives the summary's entry; None where nothing was
    to be done. Raises `ModelError` where it fails, `IllegalCommandError` where a part of it was summarised,
    or taken out of context, meanwhile.
    """
    plan = await asyncio.to_thread(_plan, conversation, agent, over, keep, policy, least)
    if plan is None:
        return None
    # The plan names the fork, so the same compaction that was killed goes on in the fork that is there.
    whole = f"{conversation.stream.key}/{agent}/{summariser.name}/{task}/{plan}"
    mark = short_key(sha256(whole.encode()).hexdigest())
    fork = await asyncio.to_thread(fork_of, conversation, plan.last, f"{summariser.name}~{mark}")
    await asyncio.to_thread(hide_spans, fork, *plan.away)
    reader = await asyncio.to_thread(reader_of, fork, agent, summariser)
    said = UserMessage(text=task, to=[reader.name])
    text, meta = await ask_in_fork(fork, reader, said)
    if (
        # While the summariser worked, a person may have hidden some of it: the summary would bring it back.
        await asyncio.to_thread(lambda: _away(context([*conversation.entries()]), agent, plan.last))
        != plan.away
    ):
        raise IllegalCommandError(
            f"{conversation.name!r}: what is in context has changed while it was summarised"
        )
    summary = AssistantMessage(agent=agent, purpose="summary", covers=plan.spans, text=text, meta=meta)
    return await asyncio.to_thread(merge_answer, conversation, summary, f"condensed-{mark}")


def _plan(
    conversation: Conversation, agent: str, over: int | None, keep: int, policy: PolicyLike, least: int
) -> CompactionPlan | None:
    """Return the plan of the summary due now; None if none is due.

    A summary is due if the agent's request is too large or was cut, and has a middle part to summarise.
    """
    request = conversation.request(agent, policy=policy)
    is_large = over is not None and request.size.tokens > over
    # What was cut before the end of a summary is in that summary.
    ended = max((s.last for summary in conversation.state().summaries for s in summary.spans), default=0)
    start = conversation.settings().context_from_of(agent)
    cut = last_cut(request, start)
    if not is_large and cut <= ended:
        return None
    log = [*conversation.entries()]
    spans = middle(log, agent, keep)
    # The last messages alone may be too large, or cut; then fewer of them stay.
    while keep > least and (not spans or spans[-1].last < cut):
        keep = max(keep // 2, least)
        spans = middle(log, agent, keep) or spans
    if not spans:
        return None
    now = context(log)
    # The last summary that has ended is part of the plan: after it, the same spans need a new fork.
    holding = {summary.position for summary in now.summaries}
    past = (e.position for e in log if summary_of(e.position, e.event) and e.position not in holding)
    return CompactionPlan(spans, _away(now, agent, spans[-1].last), max(past, default=0))


def _away(now: Context, agent: str, last: int) -> Away:
    """Return the fork's positions that are out of context by now, though they were in context at `last`."""
    since = sorted(old for old, edit in now.replaced_by.items() if old <= last < edit)
    hides = (*spans_at(now.settings.hides, last), *(PositionRange(first=old, last=old) for old in since))
    return Away(now.settings.context_from_of(agent), hides)


def reader_of(fork: Conversation, agent: str, summariser: Agent) -> Agent:
    """Return the summariser; it takes the agent's place if that is shown only its own messages."""
    # A summariser of another name would not be shown an agent's private messages.
    is_open = fork.settings().scope_of(agent) == DEFAULT_SCOPE
    return summariser if is_open else replace(summariser, name=agent)


async def ask_in_fork(fork: Conversation, summariser: Agent, said: UserMessage) -> tuple[str, dict[str, Any]]:
    """Return the summary, and the link to the fork; of a summariser that has failed before, a new attempt."""
    team, lane = Team([summariser], join=False), LaneState(summariser.name)
    team.options = replace(team.options, lane=lane.address)
    # From an earlier call with the same plan, whose model failed.
    if (await asyncio.to_thread(fork.state)).lane(lane.address).status == "failed":
        await team.resume(fork, lane.agent)
    async for _ in team.run(fork, said, id=ASKED):
        pass
    made = await asyncio.to_thread(worker_output, fork, lane)
    text = str(made.content[0])
    if made.is_error or not text.strip():
        raise ModelError("other", f"no summary: {text or 'it was empty'}")
    return text, {**made.meta}


WISH = "wish"
"""The id of the message that says what is to be changed, in its fork."""
# The fork ends before the old answer, so the wish has to quote it.
CHANGES = "{wish}\n\nThe answer that is to be changed:\n\n{answer}"
"""The message sent with a wish."""
# Where the old answer followed another one, no question is open that the model could answer.
GO_ON = "Go on."
"""The message sent without a wish if no question is open."""


class _Old(NamedTuple):
    """The answer to be made anew, by its first wording: its lane, and the position that this had seen.

    `to` is whom the latest wording is for, `text` is what it says, `now` the settings of the conversation.
    """

    lane: LaneState
    view: int
    to: tuple[str, ...]
    now: Settings
    text: str


async def regenerate(
    conversation: Conversation, position: int, agent: Agent, wish: str = "", *, in_place: bool = True
) -> Entry:
    """Have the answer at a position made again by its `agent`, on its lane.

    Gives the new answer's entry: in the conversation itself, in the place of the old one; or not `in_place`,
    in the fork, whose name it tells. Asked again with the same wish it gives what is there. What it has used
    is counted in the fork. An answer that was itself made anew is so from where its first wording was asked
    for. Raises `PositionNotFoundError`; `IllegalCommandError` where no answer of that agent is at the
    position, or it is out of context; and `ModelError` where its model fails.
    """
    mark = short_key(sha256(f"{conversation.stream.key}/{position}/{wish}".encode()).hexdigest())
    id = f"regenerated-{mark}"
    done = await asyncio.to_thread(conversation.entry_by_id, id) if in_place else None
    if done is not None:
        return done
    old = await asyncio.to_thread(_old, conversation, position, agent.name)
    fork = await asyncio.to_thread(fork_of, conversation, old.view, f"{agent.name}~{mark}")
    made = await _answer_in_fork(fork, agent, old, wish)
    if not in_place:
        return made
    link = await asyncio.to_thread(worker_output, fork, old.lane, made.position)
    return await asyncio.to_thread(
        merge_answer, conversation, _replacement(made, position, old.to, link.meta), id
    )


def _replacement(
    made: Entry, position: int, to: tuple[str, ...], link: Mapping[str, Any]
) -> AssistantMessage:
    """Return the answer as the conversation has it: with the addressees of the old one."""
    said = made.event
    assert isinstance(said, AssistantMessage), "models give answers"
    meta = {**said.meta, **link}
    said = replace(said, replaces=position, to=to, meta=meta)
    # These belong to the call in the fork: here they would be counted and compared a second time.
    return replace(said, cause=None, usage=None, receipt=None, session="")


def _old(conversation: Conversation, position: int, agent: str) -> _Old:
    log = [*conversation.entries()]
    if not 1 <= position <= len(log):
        raise PositionNotFoundError(
            f"{conversation.name!r} has no position {position}: it stands at {len(log)}"
        )
    last = log[position - 1]
    lane = LaneState(agent, getattr(last.event, "task", ""))
    if not _is_of(last, lane):
        raise IllegalCommandError(
            f"{conversation.name!r} at position {position}: expected an answer of {agent!r}"
        )
    now, wordings = context(log), _wordings(log, last, lane)
    for wording in wordings:
        if why := _out(now, wording.position):
            raise IllegalCommandError(
                f"{conversation.name!r}: the answer at {wording.position} is out of context: {why}"
            )
    latest = now.replaced_by.get(position, position)
    if not _is_of(log[latest - 1], lane):
        raise IllegalCommandError(
            f"{conversation.name!r}: the words at {latest} have taken the place of the answer at {position}"
        )
    receipt = getattr(wordings[-1].event, "receipt", None)
    # What its first wording had seen: the later ones were asked for in forks of their own.
    view = receipt.view if receipt else wordings[-1].position - 1
    return _Old(
        lane, view, getattr(last.event, "to", ()), now.settings, getattr(log[latest - 1].event, "text", "")
    )


def _wordings(log: Sequence[Entry], last: Entry, lane: LaneState) -> list[Entry]:
    """Return the wordings of an answer, each replaced by the next, the first one last."""
    found = [last]
    while (position := getattr(found[-1].event, "replaces", None)) is not None:
        if not 1 <= position < found[-1].position or not _is_of(log[position - 1], lane):
            break
        found.append(log[position - 1])
    return found


def _out(now: Context, position: int) -> str:
    """Return the rule that took a position out of context: "reset", "hidden", "summarised", or empty."""
    rule, _ = now.out.get(position, ("", 0))
    if rule in ("reset", "hidden"):
        return rule
    return "summarised" if position in now.covered else ""


async def _answer_in_fork(fork: Conversation, agent: Agent, old: _Old, wish: str) -> Entry:
    """Return the first answer in the fork; where its lane has failed before, by a new attempt."""
    made = await asyncio.to_thread(_first, fork, old)
    if made is None:
        start = old.now.context_from_of(old.lane.agent)
        await asyncio.to_thread(hide_spans, fork, start, spans_at(old.now.hides, old.view))
        changes = CHANGES.format(wish=wish, answer=old.text) if wish and old.text else wish
        await _ask(fork, agent, old.lane, changes)
        made = await asyncio.to_thread(_first, fork, old)
    if made is None:
        raise ModelError("other", f"{old.lane.address} has not answered in {fork.name!r}")
    return made


async def _ask(fork: Conversation, agent: Agent, lane: LaneState, wish: str) -> None:
    team = Team([agent], join=False)
    team.options = replace(team.options, lane=lane.address)
    # An earlier call with the same wish may have failed, or said its wish already.
    status = (await asyncio.to_thread(fork.state)).lane(lane.address).status
    if status == "failed":
        await team.resume(fork, lane.agent, lane.task)
    is_said = await asyncio.to_thread(fork.entry_by_id, WISH) is not None
    words = "" if is_said else wish or (GO_ON if status == "idle" else "")
    async for _ in team.run(fork, UserMessage(text=words, to=[lane.address]) if words else None, id=WISH):
        pass


def _first(fork: Conversation, old: _Old) -> Entry | None:
    """Return the fork's first own answer without a call, whatever followed it."""
    own = (entry for entry in fork.entries(old.view) if _is_of(entry, old.lane))
    return next((entry for entry in own if not getattr(entry.event, "tool_calls", ())), None)


def _is_of(entry: Entry, lane: LaneState) -> bool:
    match entry.event:
        case AssistantMessage(purpose="answer", agent=lane.agent, task=lane.task):
            return True
        case _:
            return False
