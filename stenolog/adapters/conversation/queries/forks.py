"""Forks: a stream of its own from a position on."""

from __future__ import annotations

from stenolog.adapters.store.contract import appends
from stenolog.adapters.store.contract.values import Head, Stream
from stenolog.adapters.store.reading import arguments, reader
from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.domain.entry import NewEntry, check_name
from stenolog.domain.lanes.decide import not_run_results

from . import folds

NOT_RUN = "not run in this fork"


def fork(conversation: StreamHandle, after: int | None, name: str | None, *, close: bool) -> Stream:
    """Return the stream of the new conversation; see `Conversation.fork`."""
    recorder, edge = conversation.log.recorder, conversation.log.edge
    head = recorder.head(conversation.stream).position
    if not head:
        raise arguments.missing(conversation.name, conversation.log.path)
    position = head if after is None else conversation.checked(after)
    at = Head(position, reader.digest_at(recorder, conversation.stream, position))
    now = edge.clock()
    items = [appends.fork_opening(edge, conversation.name, at, now)]
    if close:
        # They run in the parent, if anywhere.
        state = folds.fold_at(conversation, folds.STATE, position)
        results = not_run_results((call for _, call in state.open_calls()), NOT_RUN)
        items += [appends.prepare(edge, NewEntry(event, time=now)) for event in results]
    return recorder.conversations.fork(
        conversation.stream, at, None if name is None else check_name(name, what="fork"), items
    )
