"""Messages and commands for teams that run elsewhere: an entry and its wake-up in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.approvals import Approver, Arguments, approval, refusal
from stenolog.adapters.engine.approvals import answer as answered
from stenolog.adapters.engine.inputs import (
    AnyConversation,
    Message,
    message_of,
    opened_conversation,
    words_of,
)
from stenolog.adapters.engine.journal.live_state import LiveState
from stenolog.adapters.engine.mentions import agents_by_name, mentioned_agents
from stenolog.adapters.engine.team.start import Input, OnInput, TeamSettings, start_run
from stenolog.adapters.store.contract.appends import check_storable
from stenolog.adapters.store.contract.values import InTransaction
from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError
from stenolog.domain.events import UserMessage
from stenolog.domain.values import CallRef, Control

from .queue import Queue
from .queues import existing_queue, queue_of
from .roots import root_of

TEAM = "team"
"""The name of a team whose workers were given no other."""
MOST = 100
"""Characters in the name of a team: Procrastinate's names of queues have 128."""
NO_TEAM = TeamSettings({}, None, "agent", join=False)
"""The settings that a caller without a team records: the mode of a new conversation, and no card."""


async def submit(
    conversation: AnyConversation,
    message: Message,
    *,
    to: str | Iterable[str] = (),
    id: str = "",
    on_input: OnInput = "next",
    team: str = TEAM,
) -> int:
    """Send a message to a team that runs elsewhere; return its position.

    Message and wake-up are one transaction. A message with an `id` is appended once. `team` is the workers'
    name for it; `to` and `on_input` are those of `Team.run` and `Team.send`. Raises `AgentNotFoundError`,
    `DuplicateIdError`, `MissingExtraError`, `StoreTimeoutError`, `StoreError`.
    """
    opened = await opened_conversation(conversation)
    return await asyncio.to_thread(submit_sync, opened, message, to=to, id=id, on_input=on_input, team=team)


def submit_sync(
    conversation: Conversation,
    message: Message,
    *,
    to: str | Iterable[str] = (),
    id: str = "",
    on_input: OnInput = "next",
    team: str = TEAM,
) -> int:
    """Say something as `submit` does, for programs without an event loop."""
    names = (to,) if isinstance(to, str) and to else tuple(to)
    spoken = message_of(message, conversation.log.blobs.put)
    words = Input(replace(spoken, to=names) if names else spoken, id, on_input)
    return _record(conversation, words, team, words_of(message))


async def cancel(conversation: AnyConversation, agent: str = "", task: str = "", *, team: str = TEAM) -> int:
    """Stop a lane, or all that run, anywhere; return the command's position.

    A worker stops within half a second. Raises `IllegalCommandError` if nothing runs.
    """
    return await _control(conversation, Control(action="cancel", agent=agent, task=task), team)


async def approve(
    conversation: AnyConversation,
    call: CallRef,
    arguments: Arguments | None = None,
    by: Approver | None = None,
    *,
    team: str = TEAM,
) -> int:
    """Approve a call, and wake a worker to run it; `arguments` replace its own if given.

    Raises `InvalidEventError` if they do not fit the tool's schema, `IllegalCommandError`.
    """
    opened = await opened_conversation(conversation)
    return await _control(opened, await asyncio.to_thread(approval, opened, call, arguments, by), team)


async def reject(
    conversation: AnyConversation, call: CallRef, by: Approver | None = None, *, team: str = TEAM
) -> int:
    """Refuse a call, which its agent sees, and wake a worker. Raises `IllegalCommandError`."""
    opened = await opened_conversation(conversation)
    return await _control(opened, await asyncio.to_thread(refusal, opened, call, by), team)


async def answer(
    conversation: AnyConversation,
    call: CallRef,
    value: Any,
    by: Approver | None = None,
    *,
    asked: int = 0,
    team: str = TEAM,
) -> int:
    """Answer the question of a tool's call as `Team.answer` does, and wake a worker to run the call."""
    opened = await opened_conversation(conversation)
    message = await asyncio.to_thread(answered, opened, call, value, by, asked)
    return await asyncio.to_thread(_record, opened, Input(message), team)


def waking(conversation: Conversation) -> InTransaction | None:
    """Return what wakes a worker in the transaction that appends a message; None if nothing has to.

    For programs that append without `submit`. It wakes the workers of the team without another name.
    """
    queue = existing_queue(conversation.log)
    return partial(_wake, queue, TEAM, conversation, LiveState(conversation)) if queue else None


async def _control(conversation: AnyConversation, control: Control, team: str) -> int:
    opened = await opened_conversation(conversation)
    return await asyncio.to_thread(_record, opened, Input(UserMessage(control=control)), team)


def _record(conversation: Conversation, words: Input, team: str, said: str = "") -> int:
    queue = queue_of(conversation.log)
    state = LiveState(conversation)
    if queue.names_teams:
        state.also = partial(_wake, queue, check_team(team), conversation, state)
    if not words.message.to and words.message.control is None:
        # Only without `to`, which says it more plainly than the text.
        names = mentioned_agents(said, agents_by_name(state.settings.cards))
        words = words._replace(message=replace(words.message, to=names) if names else words.message)
    entries = start_run(state, NO_TEAM, {}, words)
    return _message(conversation, entries, words.id).position


def _wake(
    queue: Queue, team: str, conversation: Conversation, state: LiveState, connection: object, key: int
) -> None:
    # Nearly every conversation is its own root, and no other one is looked at.
    if state.settings.parent is not None:
        key = root_of(conversation).key or key
    queue.defer(key, team, connection)


def _message(conversation: Conversation, entries: list[Entry], id: str) -> Entry:
    """Return the message's entry: one of these, or an earlier submit's."""
    messages = [entry for entry in entries if isinstance(entry.event, UserMessage)]
    found = conversation.entry_by_id(id) if id else messages[-1]
    assert found is not None, "it is in the log"
    return found


def check_team(name: str) -> str:
    """Return a team's name that a queue accepts. Raises `InvalidEventError`, `CallerError`."""
    if not isinstance(name, str) or not 0 < len(name) <= MOST:
        raise CallerError(f"team: expected a name of at most {MOST} characters, found {name!r:.120}")
    check_storable("team", name)
    return name
