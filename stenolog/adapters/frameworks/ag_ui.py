"""A conversation as events of AG-UI: replayed from the log, and live while a team is at work.

async for event in ag_ui_live(conversation, team.run(conversation, "Find the bug", id="m1"), run_id="r1"):
    await send(EventEncoder().encode(event))
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING

from stenolog.adapters.conversation.aio import AsyncConversation
from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.options import EntryAppended, RunEvent, StreamDelta
from stenolog.domain.entry import Entry
from stenolog.domain.errors import MissingExtraError, StenologError
from stenolog.domain.events import ModeSwitch, UserMessage

from .shared import context_of

if TYPE_CHECKING:
    from ag_ui.core import BaseEvent, Message

    from .ag_ui_events import EventStream


def ag_ui_events(entries: Iterable[Entry], *, run_id: str = "replay") -> list[BaseEvent]:
    """Return the entries as one run, as a client gets them from the first entry on.

    The run ends with RUN_ERROR if a lane failed, and with an interrupt for each call to approve. Raises
    `MissingExtraError`.
    """
    log = list(entries)
    telling = _telling(log[0].conversation if log else "", run_id)
    made = [*telling.begin()]
    for entry in log:
        made += telling.entry(entry)
    return [*made, *telling.end()]


def ag_ui_messages(entries: Iterable[Entry]) -> list[Message]:
    """Return the messages in context for a MESSAGES_SNAPSHOT, edits applied."""
    log = list(entries)
    return _messages(_telling(log[0].conversation if log else "", "replay"), log)


def ag_ui_runs(entries: Iterable[Entry]) -> list[BaseEvent]:
    """Return the entries as serialized runs, one for each turn of persons, compacted.

    Each run has its exact input, without messages that runs before it had, and names the run before as its
    parent. A message is one piece, and a run has one snapshot of the state, its last. Raises
    `MissingExtraError`.
    """
    log = list(entries)
    telling = _telling(log[0].conversation if log else "", "")
    made: list[BaseEvent] = []
    for run in _turns(log):
        made += _run(telling, run)
    return made


async def ag_ui_live(
    conversation: Conversation | AsyncConversation,
    happenings: AsyncGenerator[RunEvent, None] | AsyncIterator[RunEvent],
    *,
    run_id: str,
    seen: Iterable[str] = (),
    snapshot: bool = True,
) -> AsyncGenerator[BaseEvent, None]:
    """Yield a team's run as it happens, with the ids of a replay.

    Begins with a MESSAGES_SNAPSHOT of earlier messages, unless there are none or `snapshot` is false. `seen`:
    ids of messages that the client has. Without a snapshot these are left out; after one they are sent, since
    clients remove messages that a snapshot lacks. If the run raises, so does this, after a RUN_ERROR. Raises
    `MissingExtraError`.
    """
    opened = await conversation.sync() if isinstance(conversation, AsyncConversation) else conversation
    telling = _telling(opened.name, run_id)
    log = await asyncio.to_thread(lambda: [*opened.entries()])
    before = _messages(telling, log)
    for event in telling.begin():
        yield event
    if snapshot and before:
        yield _snapshot(before)
    else:
        telling.seen = frozenset(seen)
    try:
        async for happened in happenings:
            for event in await _events_up_to(opened, telling, happened):
                yield event
    except Exception as error:
        for event in telling.end(str(error) if isinstance(error, StenologError) else type(error).__name__):
            yield event
        raise
    finally:
        if isinstance(happenings, AsyncGenerator):
            await happenings.aclose()
    for event in telling.end():
        yield event


async def _events_up_to(
    conversation: Conversation, telling: EventStream, happened: RunEvent
) -> list[BaseEvent]:
    match happened:
        case StreamDelta():
            return [*telling.delta(happened)]
        case EntryAppended(entry):
            missed = await _read(conversation, telling, entry.position - 1)
            return [*missed, *telling.entry(entry)] if entry.position > telling.position else missed


async def _read(conversation: Conversation, telling: EventStream, at: int | None) -> list[BaseEvent]:
    if at is not None and at <= telling.position:
        return []
    entries = await asyncio.to_thread(lambda: [*conversation.entries(telling.position, at)])
    return [event for entry in entries for event in telling.entry(entry)]


def _turns(log: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Yield the entries from what persons say to what comes of it."""
    run: list[Entry] = []
    is_answered = False
    for entry in log:
        is_asked = is_from_person(entry)
        if is_asked and is_answered:
            yield run
            run, is_answered = [], False
        is_answered = is_answered or not (is_asked or isinstance(entry.event, ModeSwitch))
        run.append(entry)
    if run:
        yield run


def is_from_person(entry: Entry) -> bool:
    """Return whether an entry is a message that a client gives to a run."""
    match entry.event:
        case UserMessage(in_context=True, author_kind="person", control=None) as said:
            return bool(said.parts)
        case _:
            return False


def _run(telling: EventStream, entries: list[Entry]) -> list[BaseEvent]:
    from ag_ui.core import StateSnapshotEvent

    from .ag_ui_events import run_input

    before, telling.run = telling.run, entries[0].id
    asked = [entry for entry in entries if is_from_person(entry)]
    telling.seen = frozenset(entry.id for entry in asked)
    started, *found = telling.begin()
    for entry in entries:
        found += telling.entry(entry)
    found += telling.end()
    states = [event for event in found if isinstance(event, StateSnapshotEvent)]
    given = {"parent_run_id": before or None, "input": run_input(telling, asked)}
    return [started.model_copy(update=given), *(event for event in found if event not in states[:-1])]


def _messages(telling: EventStream, log: list[Entry]) -> list[Message]:
    from .ag_ui_events import in_context, messages

    events = [event for entry in log for event in telling.entry(entry)]
    return in_context(messages(events), telling.places, context_of(log, telling.settings))


def _snapshot(before: list[Message]) -> BaseEvent:
    from ag_ui.core import MessagesSnapshotEvent

    return MessagesSnapshotEvent(messages=before)


def _telling(thread: str, run: str) -> EventStream:
    try:
        from .ag_ui_events import EventStream
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "ag_ui":
            raise
        raise MissingExtraError("ag-ui", "ag-ui-protocol") from None
    return EventStream(thread, run)
