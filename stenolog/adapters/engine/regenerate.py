"""Making an answer anew, with a wish: in a fork that shares all that its agent had seen, and nothing after.

    entry = await regenerate(talk, 12, writer, "Shorter, please.")

The wish is said in the fork alone, with the answer that it is about. The new answer then takes the place of
the old one in the conversation, or stays where it is, for whoever wants to compare.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, NamedTuple

from stenolog.adapters.log import Conversation
from stenolog.domain.entry import Entry
from stenolog.domain.errors import IllegalCommandError, ModelError, PositionNotFoundError
from stenolog.domain.events import AssistantMessage, UserMessage
from stenolog.domain.settings import Settings
from stenolog.domain.state import LaneState
from stenolog.projections.context import Context, context

from .agent import Agent
from .delegate import worker_output
from .effect_names import short_key
from .forks import at, fork_of, hidden, merged
from .team import Team

WISH = "wish"
"""The id of the message that says what is to be changed, in its fork."""
CHANGES = "{wish}\n\nThe answer that is to be changed:\n\n{answer}"
"""The message sent with a wish: otherwise the model sees nothing behind the question."""
GO_ON = "Go on."
"""The message sent without a wish if the old answer followed another one, so that no question is open."""


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
    """Have the answer at a position made anew by `agent`, who said it, on the lane that it was said on.

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
    return await asyncio.to_thread(merged, conversation, _replacement(made, position, old.to, link.meta), id)


def _replacement(
    made: Entry, position: int, to: tuple[str, ...], link: Mapping[str, Any]
) -> AssistantMessage:
    """The answer as it stands in the conversation: said to whom the old one was said to."""
    said = made.event
    assert isinstance(said, AssistantMessage), "models give answers"
    meta = {**said.meta, **link}
    said = replace(said, replaces=position, to=to, meta=meta)
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
    view = receipt.view if receipt else wordings[-1].position - 1
    return _Old(
        lane, view, getattr(last.event, "to", ()), now.settings, getattr(log[latest - 1].event, "text", "")
    )


def _wordings(log: Sequence[Entry], last: Entry, lane: LaneState) -> list[Entry]:
    """An answer, what it took the place of, and so on: its wordings, the first one last."""
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
    return "summarised" if any(summary.covers(position) for summary in now.summaries) else ""


async def _answer_in_fork(fork: Conversation, agent: Agent, old: _Old, wish: str) -> Entry:
    """The first answer in the fork; where its lane has failed before, by a new attempt."""
    made = await asyncio.to_thread(_first, fork, old)
    if made is None:
        start = old.now.context_from_of(old.lane.agent)
        await asyncio.to_thread(hidden, fork, start, at(old.now.hides, old.view))
        changes = CHANGES.format(wish=wish, answer=old.text) if wish and old.text else wish
        await _ask(fork, agent, old.lane, changes)
        made = await asyncio.to_thread(_first, fork, old)
    if made is None:
        raise ModelError("other", f"{old.lane.address} has not answered in {fork.name!r}")
    return made


async def _ask(fork: Conversation, agent: Agent, lane: LaneState, wish: str) -> None:
    team = Team([agent], join=False)
    team.options = replace(team.options, lane=lane.address)
    status = (await asyncio.to_thread(fork.state)).lane(lane.address).status
    if status == "failed":
        await team.resume(fork, lane.agent, lane.task)
    is_said = await asyncio.to_thread(fork.entry_by_id, WISH) is not None
    words = "" if is_said else wish or (GO_ON if status == "idle" else "")
    async for _ in team.run(fork, UserMessage(text=words, to=[lane.address]) if words else None, id=WISH):
        pass


def _first(fork: Conversation, old: _Old) -> Entry | None:
    """The first answer of the fork's own that calls nothing; whatever came of the fork after it."""
    own = (entry for entry in fork.entries(old.view) if _is_of(entry, old.lane))
    return next((entry for entry in own if not getattr(entry.event, "tool_calls", ())), None)


def _is_of(entry: Entry, lane: LaneState) -> bool:
    match entry.event:
        case AssistantMessage(purpose="answer", agent=lane.agent, task=lane.task):
            return True
        case _:
            return False
