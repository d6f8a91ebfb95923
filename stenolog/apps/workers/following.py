"""Following a conversation from any machine: entries, and pieces of answers in progress."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.inputs import AnyConversation, opened_conversation
from stenolog.adapters.engine.options import EntryAppended, RunEvent, StreamDelta
from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import CommittedRow, DraftRow, Stream
from stenolog.adapters.store.reading import reader
from stenolog.domain.entry import Entry
from stenolog.domain.errors import OperationalError, StenologError

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


PAUSE = 0.005
"""Seconds between two reads: commits that come meanwhile are read together."""
LOOK = 1.0
"""Seconds after which the reader looks whether the log was closed."""
AGAIN = 0.25
"""Seconds between two attempts while the store cannot be read."""
PATIENCE = 30.0
"""Seconds for which the store may be away before followers get its error."""
RECENT = 16
"""Entries of a conversation that are kept for its followers; a later one reads for itself."""


class LiveDraft(NamedTuple):
    """An answer in progress: the first `length` pieces of a growing list; `id` is unique in this process."""

    id: int
    pieces: list[StreamDelta]
    length: int


class Snapshot(NamedTuple):
    """A conversation at one moment: head, the last entries, answers in progress.

    Drafts are read after the entries, so no entry up to the head ends one.
    """

    head: int
    recent: tuple[Entry, ...] = ()
    drafts: tuple[LiveDraft, ...] = ()


class _Draft:
    """A claim's draft: its pieces, and the number of their last row."""

    def __init__(self, id: int, row: DraftRow) -> None:
        self.id = id
        self.effect = row.lane, row.effect, row.cause, row.attempt
        self.lane, self.cause = row.lane, row.cause
        self.pieces: list[StreamDelta] = []
        self.number = 0

    def take(self, row: DraftRow) -> None:
        self.number = row.number
        # An object among the rows tells of usage, and is no word of the answer.
        for part, kind, text, *_ in (one for one in json.loads(row.said) if isinstance(one, list)):
            self.pieces.append(StreamDelta(self.lane, self.cause, text, kind, part))

    def continues(self, other: _Draft) -> bool:
        return self.effect == other.effect and self.pieces[: len(other.pieces)] == other.pieces


Wake: TypeAlias = tuple[asyncio.AbstractEventLoop, asyncio.Event]


class Channel:
    """State shared by a conversation's followers; `end` is set when no more will come.

    `place` is the reader's key: the conversation's, or its name before it has entries.
    """

    def __init__(self, place: object, stream: Stream, head: int) -> None:
        self.place = place
        self.stream = stream
        self.snapshot = Snapshot(head)
        self.end: BaseException | None = None
        self.drafts: dict[int, _Draft] = {}
        self.wakes: dict[object, Wake] = {}

    def take(self, rows: Sequence[CommittedRow]) -> None:
        """Read the next entries. Raises `StoredDataError`."""
        entries = [reader.decoded(row) for row in rows]
        recent = (*self.snapshot.recent, *entries)[-RECENT:]
        self.snapshot = Snapshot(entries[-1].position, recent, self.snapshot.drafts)

    def take_drafts(self, rows: Sequence[DraftRow], ids: Iterator[int]) -> bool:
        """Read the drafts; return whether some remain to be shown.

        One that answers an entry after the head waits for that.
        """
        before, self.drafts = self.drafts, {}
        for row in rows:
            if row.fence not in self.drafts:
                known = before.pop(row.fence) if row.fence in before else _Draft(next(ids), row)
                self.drafts[row.fence] = known
            if row.number:
                self.drafts[row.fence].take(row)
        gone = [*before.values()]
        for draft in self.drafts.values():
            for other in [each for each in gone if draft.id > each.id and draft.continues(each)]:
                draft.id = other.id
        now = [draft for draft in self.drafts.values() if draft.cause <= self.snapshot.head]
        shown = tuple(LiveDraft(draft.id, draft.pieces, len(draft.pieces)) for draft in now)
        if shown != self.snapshot.drafts:
            self.snapshot = self.snapshot._replace(drafts=shown)
        return len(now) < len(self.drafts)


class LiveReader:
    """Reader for all followers of a log; its thread lives while there are any. See `reader_of`.

    Each commit wakes it. It reads what is new in all followed conversations by two statements, and wakes
    their followers. A slow follower holds up nobody, and nothing is queued for it.
    """

    def __init__(self, recorder: LogRecorder) -> None:
        self._recorder = recorder
        self._guard = threading.Lock()
        self._channels: dict[object, Channel] = {}
        self._has_thread = False
        self._woken = threading.Event()
        self._ids = itertools.count(1)
        self._failing_since: float | None = None

    @contextmanager
    def followed(self, conversation: Conversation, head: int) -> Iterator[tuple[Channel, asyncio.Event]]:
        """Yield the conversation's channel, and an event set on news.

        `head` is the conversation's, just read.
        """
        woken, follower, stream = asyncio.Event(), object(), conversation.stream
        with self._guard:
            place = stream.key or stream.name
            channel = self._channels.get(place)
            if channel is None or channel.end:
                channel = self._channels[place] = Channel(place, Stream(stream.name, stream.key), head)
            channel.wakes[follower] = asyncio.get_running_loop(), woken
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._read, name="stenolog-live", daemon=True).start()
        # Drafts that are under way already are to be read.
        self._woken.set()
        try:
            yield channel, woken
        finally:
            with self._guard:
                del channel.wakes[follower]
                if not channel.wakes and self._channels.get(channel.place) is channel:
                    del self._channels[channel.place]

    def _read(self) -> None:
        try:
            with self._recorder.listening(self._woken.set, drafts=True):
                # Before the first read: an entry that comes after it wakes us again.
                while channels := self._followed():
                    self._woken.clear()
                    is_more = not self._is_closed() and self._read_once(channels)
                    time.sleep(PAUSE)
                    if not is_more:
                        while not self._woken.wait(LOOK) and not self._is_closed():
                            pass
        except BaseException as error:
            # A fault of ours must not leave followers waiting for ever.
            with self._guard:
                self._end([*self._channels.values()], error)
                self._channels, self._has_thread = {}, False
            raise

    def _followed(self) -> list[Channel]:
        with self._guard:
            if self._is_closed():
                self._end([*self._channels.values()], EOFError("the log was closed"))
                self._channels.clear()
            # Under the lock: who comes after this begins another thread.
            self._has_thread = bool(self._channels)
            return [*self._channels.values()]

    def _is_closed(self) -> bool:
        return self._recorder.closed

    def _read_once(self, channels: Sequence[Channel]) -> bool:
        """Read news and wake followers; return whether there may be more."""
        before = {channel: channel.snapshot for channel in channels}
        try:
            is_more = self._take_news(channels)
            self._failing_since = None
        except OperationalError as error:
            if self._is_closed():
                return True
            now = time.monotonic()
            self._failing_since = self._failing_since or now
            # A server that starts again is no reason to end.
            if now - self._failing_since > PATIENCE:
                self._end(channels, error)
            time.sleep(AGAIN)
            is_more = True
        _wake(channel for channel in channels if channel.snapshot is not before[channel])
        return is_more

    def _take_news(self, channels: Sequence[Channel]) -> bool:
        if unknown := [channel for channel in channels if channel.stream.key is None]:
            self._look_for(unknown)
        groups: dict[int, list[Channel]] = {}
        for channel in channels:
            if channel.stream.key is not None and not channel.end:
                groups.setdefault(channel.stream.key, []).append(channel)
        by_key = {key: group[0] for key, group in groups.items()}
        if not by_key:
            return False
        # The entries first. A draft that is there after that is ended by none of them.
        rows = self._recorder.appended({key: each.snapshot.head for key, each in by_key.items()})
        for key, found in itertools.groupby(rows, lambda row: row.key):
            try:
                by_key[key].take([*found])
            except StenologError as error:
                self._end([by_key[key]], error)
        seen = {fence: draft.number for each in by_key.values() for fence, draft in each.drafts.items()}
        under_way = self._recorder.drafts.since(by_key.keys(), seen)
        drafts: dict[int, list[DraftRow]] = {key: [] for key, each in by_key.items() if each.drafts}
        for row in under_way:
            drafts.setdefault(row.key, []).append(row)
        early = [by_key[key].take_drafts(found, self._ids) for key, found in drafts.items()]
        for first, *others in groups.values():
            for other in others:
                other.snapshot, other.drafts = first.snapshot, first.drafts
            if first.end:
                self._end(others, first.end)
        return bool(rows) or any(early)

    def _look_for(self, unknown: Sequence[Channel]) -> None:
        """Look for conversations that had no entries when they were followed."""
        keys = self._recorder.conversations.find_all({channel.stream.name for channel in unknown})
        with self._guard:
            for channel in unknown:
                channel.stream.key = key = keys.get(channel.stream.name)
                if key is not None and self._channels.get(channel.place) is channel:
                    # From now on by its key: it may be renamed, and another one get its name. Others may
                    # follow it by its key already, and the two channels are read as one.
                    del self._channels[channel.place]
                    channel.place = channel if key in self._channels else key
                    self._channels[channel.place] = channel

    def _end(self, channels: Sequence[Channel], error: BaseException) -> None:
        for channel in channels:
            channel.end = channel.end or error
        _wake(channels)


def _wake(channels: Iterator[Channel] | Sequence[Channel]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Event]] = {}
    for channel in channels:
        # A copy: followers come and go in other threads.
        for loop, event in tuple(channel.wakes.values()):
            by_loop.setdefault(loop, []).append(event)
    for loop, events in by_loop.items():
        # The event loop may have ended.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_set, events)


def _set(events: Sequence[asyncio.Event]) -> None:
    for event in events:
        event.set()


def joined(pieces: Sequence[StreamDelta]) -> Iterator[StreamDelta]:
    """Yield the pieces, neighbours of one part as one."""
    for (part, kind), group in itertools.groupby(pieces, lambda piece: (piece.part, piece.kind)):
        found = [*group]
        # Each piece of an act is all of it.
        text = found[-1].text if kind == "act" else "".join(piece.text for piece in found)
        yield found[0]._replace(text=text, part=part)


_READERS: WeakKeyDictionary[LogRecorder, LiveReader] = WeakKeyDictionary()
_MAKING = threading.Lock()


def reader_of(recorder: LogRecorder) -> LiveReader:
    """Return the one reader of a log in this process."""
    with _MAKING:
        found = _READERS.get(recorder)
        if found is None:
            found = _READERS[recorder] = LiveReader(recorder)
        return found
