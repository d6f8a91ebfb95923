"""Forking: a stream of its own from a position on; nothing is copied."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from stenolog.adapters.store import appends, arguments, conversation_rows, event_rows, reader
from stenolog.adapters.store.event_rows import Head
from stenolog.adapters.store.handle import StreamHandle
from stenolog.adapters.store.stream import Stream
from stenolog.domain.decide import not_run_results
from stenolog.domain.entry import NewEntry, check_name
from stenolog.domain.errors import ConversationExistsError, ConversationNotFoundError
from stenolog.domain.events import Event, ModeSwitch
from stenolog.domain.values import ConversationRef

from . import folds

if TYPE_CHECKING:
    from stenolog.adapters.store.appends import Sources

NOT_RUN = "not run in this fork"


def fork(conversation: StreamHandle, after: int | None, name: str | None, *, close: bool) -> Stream:
    """Return the stream of the new conversation; see `Conversation.fork`."""
    head = reader.head(conversation.log.datastore, conversation.stream).position
    if not head:
        raise arguments.missing(conversation.name, conversation.log.path)
    at = head if after is None else conversation.checked(after)
    digest = reader.digest_at(conversation.log.datastore, conversation.stream, at)
    link = ConversationRef(conversation=conversation.name, position=at, digest=digest.hex())
    written: list[Event] = [ModeSwitch(fork=True, parent=link)]
    if close:
        # They run in the parent, if anywhere.
        state = folds.fold_at(conversation, folds.STATE, at)
        written += not_run_results((call for _, call in state.open_calls()), NOT_RUN)
    now = conversation.log.edge.clock()
    items = [appends.prepare(conversation.log.edge, NewEntry(event, time=now)) for event in written]
    with conversation.log.datastore.writing() as connection:
        made = _create(connection, conversation, at, None if name is None else check_name(name, what="fork"))
        assert made.key is not None
        event_rows.insert(connection, made.key, appends.sealed(Head(at, digest), items))
    return made


def keep_branch(connection: sqlite3.Connection, edge: Sources, parent: Stream, at: Head, name: str) -> bool:
    """Fork a conversation inside a transaction that is under way, its open calls left open.

    False, and nothing written, where a conversation of that name exists already. `parent` has its key.
    """
    assert parent.key is not None, "it has entries"
    if conversation_rows.find(connection, name) is not None:
        return False
    link = ConversationRef(conversation=parent.name, position=at.position, digest=at.digest.hex())
    key = conversation_rows.create(connection, name, parent=parent.key, fork=at.position)
    opening = appends.prepare(edge, NewEntry(ModeSwitch(fork=True, parent=link)))
    event_rows.insert(connection, key, appends.sealed(at, [opening]))
    return True


def _create(
    connection: sqlite3.Connection, conversation: StreamHandle, after: int, name: str | None
) -> Stream:
    """The stream of the fork, under the name asked for, or the first free one of `<name>~1`, `~2` …"""
    parent = conversation.stream.key
    assert parent is not None, "it has entries"
    if conversation_rows.name_of(connection, parent) is None:
        raise ConversationNotFoundError(f"{conversation.name!r}: the conversation was deleted")
    if name is not None:
        if conversation_rows.find(connection, name) is not None:
            raise ConversationExistsError(f"{name!r}: a conversation of this name exists already")
        return Stream(name, conversation_rows.create(connection, name, parent=parent, fork=after))
    number = len(conversation_rows.forks(connection, parent)) + 1
    while conversation_rows.find(connection, f"{conversation.name}~{number}") is not None:
        number += 1
    name = check_name(f"{conversation.name}~{number}", what="name of the fork")
    return Stream(name, conversation_rows.create(connection, name, parent=parent, fork=after))
