"""Forks in which an agent works, and regenerated answers.

    entry = await regenerate(conversation, 12, writer, "Shorter, please.")

The log keeps every word, and the fork shares them. An interrupted call continues in the fork. Only the fork
has the wish, and the answer that it is about. The new answer then replaces the old one in the conversation,
or stays in the fork for comparison.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Any, NamedTuple

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.agent import Agent
from stenolog.adapters.engine.delegate import worker_output
from stenolog.adapters.engine.journal.work import short_key
from stenolog.adapters.engine.team.team import Team
from stenolog.domain.entry import Entry
from stenolog.domain.errors import (
    ConversationExistsError,
    IllegalCommandError,
    ModelError,
    PositionNotFoundError,
)
from stenolog.domain.events import AssistantMessage, ModeSwitch, UserMessage
from stenolog.domain.lanes.state import LaneState
from stenolog.domain.settings import Settings
from stenolog.domain.values import PositionRange
from stenolog.projections.views.context import Context, context


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
    """Hide from all agents what is out of context: entries before `context_from`, or in `hides`."""
    start = min(context_from, fork.position + 1)
    settings = fork.settings()
    if (settings.context_from, settings.hides) != (start, hides):
        fork.submit(ModeSwitch(context_from=start or None, hides=hides))


WISH = "wish"
"""The id of the message that says what is to be changed, in its fork."""
# The fork ends before the old answer, so the wish has to quote it.
CHANGES = "{wish}\n\nThe answer that is to be changed:\n\n{answer}"
"""The message sent with a wish."""
# Where the old answer followed another one, no question is open that the model could answer.
GO_ON = "Go on."
"""The message sent without a wish if no question is open."""


class _Old(NamedTuple):
    """Answer to be regenerated, by its first wording: its lane, and the position that it had seen.

    `to` and `text` are those of the latest wording, `now` the settings of the conversation.
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

    Returns the new answer's entry: in the conversation, in place of the old one; or, if not `in_place`, in
    the fork. The same wish again returns the same entry. Its usage is counted in the fork. A regenerated
    answer is made again from where its first wording was asked for.

    Raises `PositionNotFoundError`; `IllegalCommandError` if the position has no answer of that agent, or is
    out of context; `ModelError` if the model fails.
    """
    mark = short_key(sha256(f"{conversation.stream.key}/{position}/{wish}".encode()).hexdigest())
    id = f"regenerated-{mark}"
    done = await asyncio.to_thread(conversation.entry_by_id, id) if in_place else None
    if done is not None:
        return done
    old = await asyncio.to_thread(_old, conversation, position, agent.name)
    fork = await asyncio.to_thread(fork_of, conversation, old.view, f"{agent.name}~{mark}")
    answer = await _answer_in_fork(fork, agent, old, wish)
    if not in_place:
        return answer
    link = await asyncio.to_thread(worker_output, fork, old.lane, answer.position)
    replacement = _replacement(answer, position, old.to, link.meta)
    return (await asyncio.to_thread(conversation.submit, replacement, id=id))[0]


def _replacement(
    entry: Entry, position: int, to: tuple[str, ...], link: Mapping[str, Any]
) -> AssistantMessage:
    """Return the answer for the conversation, with the old one's addressees."""
    event = entry.event
    assert isinstance(event, AssistantMessage), "models give answers"
    meta = {**event.meta, **link}
    event = replace(event, replaces=position, to=to, meta=meta)
    # These belong to the call in the fork: here they would be counted and compared a second time.
    return replace(event, cause=None, usage=None, receipt=None, session="")


def _old(conversation: Conversation, position: int, agent: str) -> _Old:
    log = [*conversation.entries()]
    if not 1 <= position <= len(log):
        raise PositionNotFoundError(
            f"{conversation.name!r} has no position {position}: its last one is {len(log)}"
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
    found = [last]
    while (position := getattr(found[-1].event, "replaces", None)) is not None:
        if not 1 <= position < found[-1].position or not _is_of(log[position - 1], lane):
            break
        found.append(log[position - 1])
    return found


def _out(now: Context, position: int) -> str:
    rule, _ = now.out.get(position, ("", 0))
    if rule in ("reset", "hidden"):
        return rule
    return "summarised" if position in now.covered else ""


async def _answer_in_fork(fork: Conversation, agent: Agent, old: _Old, wish: str) -> Entry:
    """Return the fork's first answer; a lane that failed before is tried again."""
    answer = await asyncio.to_thread(_first, fork, old)
    if answer is None:
        start = old.now.context_from_of(old.lane.agent)
        await asyncio.to_thread(hide_spans, fork, start, spans_at(old.now.hides, old.view))
        changes = CHANGES.format(wish=wish, answer=old.text) if wish and old.text else wish
        await _ask(fork, agent, old.lane, changes)
        answer = await asyncio.to_thread(_first, fork, old)
    if answer is None:
        raise ModelError("other", f"{old.lane.address} has not answered in {fork.name!r}")
    return answer


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
    own = (entry for entry in fork.entries(old.view) if _is_of(entry, old.lane))
    return next((entry for entry in own if not getattr(entry.event, "tool_calls", ())), None)


def _is_of(entry: Entry, lane: LaneState) -> bool:
    match entry.event:
        case AssistantMessage(purpose="answer", agent=lane.agent, task=lane.task):
            return True
        case _:
            return False
