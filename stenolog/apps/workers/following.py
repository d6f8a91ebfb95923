"""Following a conversation from any machine: entries, and pieces of answers in progress."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from itertools import islice

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.options import EntryAppended, RunEvent
from stenolog.adapters.engine.team.team import AnyConversation
from stenolog.domain.entry import Entry

from .live_reader import Channel, Snapshot, joined, reader_of
from .submitting import opened_conversation

AT_ONCE = 64
"""Entries that a late follower reads at once."""


async def follow(
    conversation: AnyConversation, *, after: int | None = None
) -> AsyncGenerator[RunEvent, None]:
    """Yield a conversation's events as `Team.run` does, whichever machine runs it.

    Each entry after `after` (None: only new ones) comes once, in order. Pieces of an answer come from its
    beginning, before its entry; the last ones may be missing. Ends when the log is closed. Raises
    `PositionNotFoundError`, `StoreError`.
    """
    opened = await opened_conversation(conversation)
    head = await asyncio.to_thread(lambda: opened.position)
    position = head if after is None else await asyncio.to_thread(opened.checked, after)
    seen: dict[int, int] = {}
    with reader_of(opened.log.recorder).followed(opened, head) as (channel, woken):
        while True:
            woken.clear()
            now = channel.snapshot
            if position < now.head:
                for entry in await _entries(opened, position, now):
                    position = entry.position
                    yield EntryAppended(entry)
                continue
            # The pieces of answers that have ended are not shown any more.
            seen = {draft.id: seen.get(draft.id, 0) for draft in now.drafts}
            for draft in now.drafts:
                pieces, seen[draft.id] = draft.pieces[seen[draft.id] : draft.length], draft.length
                for piece in joined(pieces):
                    yield piece
                if channel.snapshot is not now:
                    break
            if channel.snapshot is now:
                if _is_over(channel):
                    return
                await woken.wait()


async def _entries(conversation: Conversation, after: int, now: Snapshot) -> list[Entry]:
    if now.recent and now.recent[0].position <= after + 1:
        return [entry for entry in now.recent if entry.position > after]
    return await asyncio.to_thread(lambda: [*islice(conversation.entries(after, now.head), AT_ONCE)])


def _is_over(channel: Channel) -> bool:
    """Return whether the log was closed. Raises the error that stops reading."""
    if channel.end is None or isinstance(channel.end, EOFError):
        return channel.end is not None
    raise channel.end
