"""Erase the payload of an entry, whose header and digest stay, so the chain holds; delete a conversation."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator

from stenolog.adapters.search.indexing import Source, forgetting
from stenolog.adapters.store import appends, blobs, conversation_rows, event_rows, reader
from stenolog.adapters.store.file_safety import KEY_BYTES
from stenolog.adapters.store.handle import StreamHandle
from stenolog.adapters.store.stream import Stream
from stenolog.domain.entry import Entry, NewEntry, content_hash
from stenolog.domain.errors import ConversationExistsError, InvalidEventError, VersionConflictError
from stenolog.domain.events import ERASED, Event, ModeSwitch, Unknown, UserMessage, is_erased
from stenolog.domain.history import ERASED as RECORD
from stenolog.domain.lifecycle import BUSY
from stenolog.domain.state import State
from stenolog.domain.step import INITIAL, evolve
from stenolog.domain.values import Control

WITH_ENTRY = "SELECT stream, name FROM conversations WHERE parent = ? AND fork_position >= ? ORDER BY stream"
STORED = "SELECT salt, state FROM stored_events WHERE originator_id = ? AND originator_version = ?"
ERASE = """UPDATE stored_events SET size = ?, erased = ?, salt = x'', state = x''
    WHERE originator_id = ? AND originator_version = ?"""
NEW_KEY = "UPDATE secret SET bytes = ? WHERE name = 'sidecars'"


def erase(conversation: StreamHandle, position: int) -> None:
    """See `Conversation.erase`."""
    conversation.checked(position, least=1)
    (entry,) = conversation.entries(position - 1, position)
    if is_erased(entry.event):
        return
    if isinstance(entry.event, ModeSwitch | Unknown):
        raise InvalidEventError(
            f"{conversation.name!r} at position {position}: a {entry.event.kind} cannot be erased"
        )
    key = reader.resolve(conversation.log.datastore, conversation.stream)
    assert key is not None, "it has entries"
    with conversation.log.datastore.reading() as connection:
        own = conversation_rows.lineage(connection, key, position)[-1].after
    if position <= own:
        raise InvalidEventError(
            f"{conversation.name!r} at position {position}: inherited; erase it where it was written"
        )
    named = blobs.named_by(conversation.log.datastore, key)
    while True:
        try:
            changed = _write(conversation, key, entry)
            break
        except VersionConflictError:
            continue
    _forget(conversation, key, changed, named)


def _write(conversation: StreamHandle, key: int, entry: Entry) -> list[int]:
    """Erase the entry, and bring to rest what it set in motion, in one transaction; return the streams.

    Without an answer its question would be asked again, and without a result its tool would run again.
    """
    log = conversation.log
    with log.datastore.reading() as connection:
        found = dict(_with_entry(connection, key, conversation.name, entry.position))
    stopped = {
        stream: _stopped(StreamHandle(log, log.remembered(Stream(name, stream))), entry)
        for stream, name in found.items()
    }
    now = log.edge.clock()
    with log.datastore.writing() as connection:
        if dict(_with_entry(connection, key, found[key], entry.position)) != found:
            raise VersionConflictError(conversation.name, expected=0, found=0)
        salt, payload = connection.execute(STORED, (key, entry.position)).fetchone()
        erased = len(payload), content_hash(salt, payload)
        connection.execute(ERASE, (*erased, key, entry.position))
        conversation_rows.add_change(connection, key, RECORD, value=entry.position)
        seal_key = os.urandom(KEY_BYTES)  # what other processes leave beside the log is not used any more
        connection.execute(NEW_KEY, (seal_key,))
        for stream, (position, controls) in stopped.items():
            head = event_rows.head(connection, stream)
            if head is None or head.position != position:
                raise VersionConflictError(
                    found[stream], expected=position, found=head.position if head else 0
                )
            items = [appends.prepare(log.edge, NewEntry(event, time=now)) for event in controls]
            event_rows.insert(connection, stream, appends.sealed(head, items))
    log.seals.renew(seal_key)
    return list(found)


def _with_entry(
    connection: sqlite3.Connection, stream: int, name: str, position: int
) -> Iterator[tuple[int, str]]:
    """Yield the conversations that have the entry: the stream's own, and its forks from there on."""
    yield stream, name
    for fork, fork_name in connection.execute(WITH_ENTRY, (stream, position)).fetchall():
        yield from _with_entry(connection, fork, fork_name, position)


def _stopped(conversation: StreamHandle, entry: Entry) -> tuple[int, list[Event]]:
    """Return the conversation's last position, and what cancels each lane that the erasure would set to work.

    Raises `ConversationExistsError` while a call of the entry has no result.
    """
    before: State = INITIAL
    after: State = INITIAL
    gone = Unknown(topic=ERASED, payload=b"", ignorable=True)
    for each in conversation.entries():
        before = evolve(before, each)
        after = evolve(after, each._replace(event=gone) if each.position == entry.position else each)
    if any(call.position == entry.position for _, call in before.open_calls()):
        raise ConversationExistsError(
            f"{conversation.name!r} at position {entry.position}: a call of it has no result yet"
        )
    awake = [
        lane for where, lane in after.lanes.items() if lane.status in BUSY and lane != before.lane(where)
    ]
    stops = [Control(action="cancel", agent=lane.agent, task=lane.task) for lane in awake]
    return before.position, [UserMessage(author_kind="system", control=stop) for stop in stops]


def _forget(conversation: StreamHandle, key: int, changed: list[int], named: set[str]) -> None:
    """Remove what the files beside the log, and this process, still have of the words."""
    log = conversation.log
    conversation.stream.head = None
    for stream in changed:
        log.forget(stream)
        log.purge(stream, named if stream == key else ())
    log.index.discard()


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
