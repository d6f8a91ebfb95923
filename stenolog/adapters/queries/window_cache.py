"""Cache of windows in memory, and bookmarks from which another process continues them.

What is held comes from recorded entries alone, and is taken on only by entries: another process may have
written them as well. Whatever cannot be gone on with is let go, which costs time alone.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

from pydantic_core import PydanticSerializationError, from_json, to_json

from stenolog.adapters.store import reader
from stenolog.adapters.store.handle import LogHandle
from stenolog.adapters.store.reader import peek
from stenolog.adapters.store.stream import Stream
from stenolog.domain.entry import Entry
from stenolog.domain.events import ModeSwitch
from stenolog.domain.policy import Policy, PolicyLike, PolicyRule
from stenolog.domain.policy import policy as policy_of
from stenolog.projections.requests import PIPELINE, Api, LaneId, Request
from stenolog.projections.requests.incremental.session import Bookmark, RequestSession
from stenolog.projections.requests.incremental.window import Window
from stenolog.projections.requests.request import Explanation

from .folds import Rows, rules_version

ROWS = 50_000
"""So many entries are held at most, over all windows of a log."""
MOST = 8
"""So many APIs are written for at once."""
NAMED = 64
"""So many policies are known by name at most."""
LEAST = 32
"""The fixed weight of a cached window, added to the weight of its entries."""


class Key(NamedTuple):
    """The key of a cached window: the conversation's stream, the lane, and the requested policy.

    `policy` is JSON (empty: the one on the card).
    """

    stream: int
    lane: LaneId
    policy: str


class SnapshotWriter:
    """A listener to a window as it advances; this one does nothing, for windows without bookmarks."""

    def take(self, entry: Entry) -> None:
        """The window has taken an entry in."""

    def finish(self) -> None:
        """That was the last one for now."""


class CachedWindow:
    """A window with the requests that are made of it, one after another, on each API.

    `digest` is that of the last entry in it. `usable` turns false where a card brings another policy, or
    where the window is broken. Unless it is to stay `whole`, what is settled is let go of, and `explain` says
    where the parts of a request on an API at a position come from. `left` has what was left of each live for
    another process.
    """

    def __init__(
        self,
        window: Window,
        blobs: Mapping[str, bytes],
        marking: SnapshotWriter,
        explain: Callable[[str | Api, int], Explanation],
        *,
        by_card: bool,
        whole: bool = False,
    ) -> None:
        self.window = window
        self.digest = ""
        self.usable = True
        self.whole = whole
        self.lives: dict[str | Api, RequestSession] = {}
        self.left: dict[str | Api, Any] = {}
        self._blobs = blobs
        self._by_card = by_card
        self._marking = marking
        self._explain = explain

    def extend(self, entries: Iterable[Entry]) -> None:
        """Take the next entries in."""
        for entry in entries:
            before = self.window.settings
            self.window.take(entry)
            self.digest = entry.digest
            self._marking.take(entry)
            if self._by_card and isinstance(entry.event, ModeSwitch):
                agent, now = self.window.lane.agent, self.window.settings
                self.usable &= before.card_of(agent).policy == now.card_of(agent).policy
        self.usable &= not self.window.broken
        self._marking.finish()

    def live(self, api: str | Api) -> RequestSession:
        """The requests on an API."""
        if api not in self.lives:
            if len(self.lives) == MOST:
                self.lives.clear()
            self.lives[api] = live = RequestSession(self.window, api, self._blobs)
            live.explain = partial(self._explain, api)
        return self.lives[api]

    def request(self, api: str | Api) -> Request:
        """The request on an API. Raises `BrokenWindow` where what it needs was let go of."""
        live = self.live(api)
        request = live.request()
        if len(self.lives) == 1 and not self.whole:
            live.shed()
        return request

    @property
    def weight(self) -> int:
        """The memory that the window takes, counted in entries."""
        written = (live.writer for live in self.lives.values())
        messages = sum(len(writer.sheet.messages) for writer in written if writer is not None)
        return LEAST + len(self.window.rows) + messages // 2 + len(self.window.pairing.pairs) // 4


class WindowCache:
    """The windows that a log holds, the last used ones; safe to share between threads.

    A window is one caller's at a time: whoever comes meanwhile finds none.
    """

    def __init__(self) -> None:
        self._held: OrderedDict[Key, tuple[CachedWindow, int]] = OrderedDict()
        self._rows = 0
        self._named: dict[int, tuple[PolicyLike, str]] = {}
        self._turn = Lock()

    def __iter__(self) -> Iterator[tuple[Key, CachedWindow]]:
        with self._turn:
            return iter([(key, held) for key, (held, _) in self._held.items()])

    def __len__(self) -> int:
        return len(self._held)

    def policy_key(self, policy: PolicyLike) -> str:
        """The policy of a key. That of a value which never changes is written down once."""
        if policy is None:
            return ""
        found = self._named.get(id(policy))
        if found is None or found[0] is not policy:
            found = policy, json.dumps(policy_of(policy).json, sort_keys=True)
            if isinstance(policy, Policy | PolicyRule):
                self._named = {**self._named, id(policy): found} if len(self._named) < NAMED else {}
        return found[1]

    def take(self, key: Key) -> CachedWindow | None:
        """The window of a key, which is the caller's until it is put back; None where none is held."""
        with self._turn:
            held, rows = self._held.pop(key, (None, 0))
            self._rows -= rows
            return held

    def put(self, key: Key, held: CachedWindow) -> None:
        """Hold a window, and let go of those that were not used for longest where there are too many.

        One that rests on a blob which was not there is not held: the blob may be there the next time.
        """
        if held.window.measure.missing:
            return
        rows = held.weight
        with self._turn:
            _, replaced = self._held.pop(key, (None, 0))
            self._held[key] = held, rows
            self._rows += rows - replaced
            while self._rows > ROWS:
                _, (_, gone) = self._held.popitem(last=False)
                self._rows -= gone

    def drop(self, stream: int) -> None:
        """Let go of the windows of a conversation."""
        with self._turn:
            for key in [key for key in self._held if key.stream == stream]:
                self._rows -= self._held.pop(key)[1]

    def clear(self) -> None:
        """Let go of all of them."""
        with self._turn:
            self._held.clear()
            self._rows = 0


def windows_of(log: LogHandle) -> WindowCache:
    """The windows that a log holds for the next requests."""
    if not isinstance(log.windows, WindowCache):
        log.windows = WindowCache()
    return log.windows


FAR = 1_024
"""After so many further messages a bookmark is left again, and when the log is closed."""
NEAR = 128
"""Below this many messages, rebuilding a window is as fast as loading it."""
PIECE = 64
"""Messages in a piece: larger ones take longer to read, for the memory they need."""
BOOKMARK = Rows(Bookmark)


class WindowToKeep(NamedTuple):
    """The bookmark of a request: its writer, how many messages it has, and a seal of each piece of them.

    `tried`: how many there were when it was tried last, be it in vain.
    """

    writer: object = None
    messages: int = 0
    sums: tuple[int, ...] = ()
    tried: int = 0


class StoredWindow(NamedTuple):
    """A bookmark, the digest of the log there, the settled messages, and a seal of each piece."""

    mark: Bookmark
    digest: str
    messages: list[dict[str, Any]]
    sums: tuple[int, ...]


NOTHING = WindowToKeep()


def leave_all(log: LogHandle) -> None:
    """Leave a bookmark of whatever the log holds, and still has: deleted words are not written again."""
    for key, held in windows_of(log):
        stream = Stream("", key.stream)
        if peek(log.datastore, stream, held.window.position, held.digest) is not None:
            leave_bookmark(log, key, held, further=1)


def leave_bookmark(log: LogHandle, key: Key, held: CachedWindow, *, further: int) -> None:
    """Leave a bookmark of each API that has written so many messages since the last one."""
    for name, live in held.lives.items():
        before = held.left.get(name, NOTHING)
        if live.writer is None or not isinstance(name, str):
            continue
        if before.writer is not live.writer:
            before = WindowToKeep(live.writer)
        written = len(live.writer.sheet.messages)
        if written >= max(NEAR, before.tried + further):
            left = _store_bookmark(log, key, name, live, held.digest, before)
            held.left[name] = left._replace(tried=written)


def _store_bookmark(
    log: LogHandle, key: Key, api: str, live: RequestSession, digest: str, before: WindowToKeep
) -> WindowToKeep:
    """The last message is kept apart: what comes behind it may go on with it."""
    found = live.bookmark()
    if found is None:
        return before
    mark, messages = found
    try:
        cuts = range(before.messages, len(messages) - 1, PIECE)
        fresh = [to_json(messages[first : min(first + PIECE, len(messages) - 1)]) for first in cuts]
        sums = (*before.sums, *map(log.bookmarks.seal, fresh))
        said = to_json({"digest": digest, "last": messages[-1], "sums": sums})
    except PydanticSerializationError:  # half a character, say: nothing that JSON can hold
        return before
    head = BOOKMARK.dump(mark) + b"\n" + said
    is_kept = log.bookmarks.put(key.stream, _bookmark_name(key, api), head, len(before.sums) + 1, fresh)
    if is_kept and not reader.exists(log.datastore, key.stream):  # it was deleted elsewhere
        log.bookmarks.forget(key.stream)
        is_kept = False
    return WindowToKeep(live.writer, len(messages) - 1, sums) if is_kept else WindowToKeep(live.writer)


def find_bookmark(log: LogHandle, key: Key, api: str) -> StoredWindow | None:
    """The bookmark of a lane on an API; None where there is none, or another release has left it.

    The seals tell pieces from those that another process has left.
    """
    (head, _), *pieces = log.bookmarks.get(key.stream, _bookmark_name(key, api)) or ((b"", 0),)
    written, _, rest = head.partition(b"\n")
    try:
        mark, said = BOOKMARK.load(written), from_json(rest)
        sums = tuple(total for _, total in pieces)
        if list(sums) != said["sums"]:
            return None
        messages = [message for piece, _ in pieces for message in from_json(piece)]
    except (ValueError, TypeError, KeyError):
        return None
    messages.append(said["last"])
    return StoredWindow(mark, said["digest"], messages, sums) if len(messages) == mark.messages else None


def _bookmark_name(key: Key, api: str) -> str:
    asked = [key.lane.agent, key.lane.task, key.policy, api, PIPELINE, rules_version()]
    return json.dumps(asked)
