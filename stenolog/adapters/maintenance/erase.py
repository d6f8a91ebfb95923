"""Erase the payload of entries, whose headers and digests stay, so the chain holds; delete a conversation."""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence
from typing import NamedTuple

from stenolog.adapters.search.indexing import Source, forgetting
from stenolog.adapters.store import appends, blobs, conversation_rows, erasures, event_rows
from stenolog.adapters.store.file_safety import KEY_BYTES
from stenolog.adapters.store.handle import StreamHandle
from stenolog.adapters.store.stream import Stream
from stenolog.domain.entry import NewEntry
from stenolog.domain.errors import ConversationExistsError, InvalidEventError, VersionConflictError
from stenolog.domain.events import (
    ERASED,
    Event,
    ModeSwitch,
    Unknown,
    UserMessage,
    erasure_of,
    erasure_receipt,
    is_erased,
)
from stenolog.domain.lifecycle import BUSY
from stenolog.domain.state import State
from stenolog.domain.step import INITIAL, evolve
from stenolog.domain.values import Control


class Erased(NamedTuple):
    """What was erased, by whom and why.

    `receipts` are the positions of the entries that say so, by conversation: forks that have the entries get
    one too. `is_complete` is False while other processes keep words from being removed from the write-ahead
    log or the blobs: opening the log later, or `Log.collect`, goes on with that.
    """

    positions: tuple[int, ...]
    by: str
    reason: str
    receipts: dict[str, int]
    is_complete: bool


def erase(conversation: StreamHandle, positions: Sequence[int], *, reason: str, by: str | None) -> Erased:
    """See `Conversation.erase`."""
    log, who = conversation.log, _user() if by is None else by
    erasable = [at for at in dict.fromkeys(positions) if _is_erasable(conversation, at)]
    if not erasable:
        return Erased((), who, reason, {}, erasures.finish(log))
    key = log.existing(conversation.stream)
    with log.datastore.reading() as connection:
        own = conversation_rows.lineage(connection, key, max(erasable))[-1].after
    if min(erasable) <= own:
        raise InvalidEventError(
            f"{conversation.name!r} at position {min(erasable)}: inherited; erase it where it was written"
        )
    while True:
        try:
            receipts = _write(conversation, key, sorted(erasable), reason, who)
            break
        except VersionConflictError:
            continue
    return Erased(tuple(sorted(erasable)), who, reason, receipts, erasures.finish(log))


def _is_erasable(conversation: StreamHandle, position: int) -> bool:
    """Return whether an entry has words to be erased. Raises `InvalidEventError` for what must stay."""
    conversation.checked(position, least=1)
    (entry,) = conversation.entries(position - 1, position)
    if is_erased(entry.event):
        return False
    what = "receipt of an erasure" if erasure_of(entry.event) else entry.event.kind
    if isinstance(entry.event, ModeSwitch | Unknown) or what != entry.event.kind:
        raise InvalidEventError(f"{conversation.name!r} at position {position}: a {what} cannot be erased")
    return True


def _user() -> str:
    """Return the name of the system's user."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a process without a user, as in some containers
        return "unknown"


def _write(
    conversation: StreamHandle, key: int, positions: Sequence[int], reason: str, by: str
) -> dict[str, int]:
    """Erase the entries, and bring to rest what they set in motion, in one transaction; return the receipts.

    Without an answer its question would be asked again, and without a result its tool would run again.
    """
    log = conversation.log
    with log.datastore.reading() as connection:
        found = dict(erasures.conversations_with(connection, key, conversation.name, positions[0]))
        ends = {
            stream: conversation_rows.lineage(connection, stream, event_rows.LAST)[-1].after
            for stream in found
            if stream != key
        }
    written: dict[int, tuple[int, list[Event]]] = {}
    for stream, name in found.items():
        there = [at for at in positions if stream == key or at <= ends[stream]]
        handle = StreamHandle(log, log.remembered(Stream(name, stream)))
        position, stops = _stopped(handle, there)
        written[stream] = position, [*stops, erasure_receipt(there, by=by, reason=reason)]
    now = log.edge.clock()
    receipts: dict[str, int] = {}
    with log.datastore.writing() as connection:
        there_now = dict(erasures.conversations_with(connection, key, found[key], positions[0]))
        if there_now != found:
            raise VersionConflictError(conversation.name, expected=0, found=0)
        seal_key = os.urandom(KEY_BYTES)
        erasures.overwrite(connection, key, positions, found, seal_key)
        for stream, (position, events) in written.items():
            head = event_rows.head(connection, stream)
            if head is None or head.position != position:
                raise VersionConflictError(
                    found[stream], expected=position, found=head.position if head else 0
                )
            items = [appends.prepare(log.edge, NewEntry(event, time=now)) for event in events]
            records = appends.sealed(head, items)
            event_rows.insert(connection, stream, records)
            receipts[found[stream]] = records[-1].position
    log.seals.renew(seal_key)
    conversation.stream.head = None
    for stream in found:
        log.forget(stream)
    return receipts


def _stopped(conversation: StreamHandle, positions: Sequence[int]) -> tuple[int, list[Event]]:
    """Return the conversation's last position, and what cancels each lane that the erasure would set to work.

    Raises `ConversationExistsError` while a call of one of the entries has no result.
    """
    before: State = INITIAL
    after: State = INITIAL
    gone = Unknown(topic=ERASED, payload=b"", ignorable=True)
    for each in conversation.entries():
        before = evolve(before, each)
        after = evolve(after, each._replace(event=gone) if each.position in positions else each)
    for _, call in before.open_calls():
        if call.position in positions:
            raise ConversationExistsError(
                f"{conversation.name!r} at position {call.position}: a call of it has no result yet"
            )
    awake = [
        lane for where, lane in after.lanes.items() if lane.status in BUSY and lane != before.lane(where)
    ]
    stops = [Control(action="cancel", agent=lane.agent, task=lane.task) for lane in awake]
    return before.position, [UserMessage(author_kind="system", control=stop) for stop in stops]


def delete(conversation: StreamHandle) -> None:
    """See `Conversation.delete`."""
    log, stream = conversation.log, conversation.stream
    key = log.existing(stream)
    source = Source(log.datastore, log.blobs)
    named = blobs.named_by(log.datastore, key)
    with forgetting(log.index, source, key), log.datastore.writing() as connection:
        if living := conversation_rows.forks(connection, key):
            raise ConversationExistsError(f"{stream.name!r}: forks of it exist: {', '.join(living[:5])}")
        conversation_rows.delete(connection, key)
    stream.head = None
    log.purge(key, named)
