"""Cache of windows in memory, for the next requests.

Windows are advanced by stored entries, because other processes may append. Evicting one that cannot advance
costs time, never correctness.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from sys import maxsize
from threading import Lock, Thread
from typing import TYPE_CHECKING, NamedTuple

from stenolog.adapters.store.reading.handle import LogHandle
from stenolog.domain.card import policy_of_card
from stenolog.domain.entry import Entry
from stenolog.domain.erasure import erasure_of
from stenolog.domain.events import ModeSwitch
from stenolog.domain.policy import Policy, PolicyLike, PolicyRule
from stenolog.domain.policy import policy as policy_of
from stenolog.projections.requests import LaneId, Request
from stenolog.projections.requests.incremental.series import RequestSeries
from stenolog.projections.requests.incremental.window import Window

if TYPE_CHECKING:
    from stenolog.projections.context_curve.tracer import ContextTracer
    from stenolog.projections.requests.lane_rates import LaneRates

ROWS = 50_000
"""So many entries are held at most, over all windows of a log; one window is held even if it is larger."""
REQUESTS = 16
"""So many requests of the past are kept at most; a large one takes some megabytes."""
TRACERS = 4
"""So many tracers are held at once."""
RATES = 64
"""The lanes whose rates are held."""
NAMED = 64
"""So many policies are known by name at most."""
STRIDE = 64
"""Entries between two windows of the past that stay in memory under a cap."""
LEAST = 32
"""The fixed weight of a cached window, added to the weight of its entries."""


class Key(NamedTuple):
    """Key of a cached window: the conversation's stream, the lane, the requested policy.

    `policy` is JSON (empty: the card's). `at` is the window's position in the past; 0: it is at the head.
    """

    key: int
    lane: LaneId
    policy: str
    at: int = 0


class WindowListener:
    """Listener to a window's advance; this one, for windows without snapshots, does nothing.

    From position `due` on there may be something to write after a request.
    """

    due = maxsize

    def take(self, held: CachedWindow, entry: Entry) -> None:
        """Note that the window took an entry."""

    def work(self, held: CachedWindow, *, at_end: bool = False) -> Callable[[], None] | None:
        """Return the writing to do after a request, or at the end, in any thread."""
        return None


class CachedWindow(RequestSeries):
    """A series of requests kept up to date with a stored log.

    `digest` is its last entry's. `usable` becomes false when a card brings another policy, or when
    entries were erased, whose words it may have. `begin` is its
    snapshot's position; 0: none.
    """

    def __init__(
        self,
        window: Window,
        blobs: Mapping[str, bytes],
        listener: WindowListener,
        *,
        by_card: bool,
        begin: int = 0,
    ) -> None:
        super().__init__(window, blobs)
        self.begin = begin
        self.digest = ""
        self.usable = True
        self._by_card = by_card
        self.listener = listener

    def extend(self, entries: Iterable[Entry]) -> None:
        """Take the next entries in."""
        for entry in entries:
            before = self.window.settings
            self.window.take(entry)
            self.digest = entry.digest
            self.listener.take(self, entry)
            self.usable &= erasure_of(entry.event) is None
            if self._by_card and isinstance(entry.event, ModeSwitch):
                agent, now = self.window.lane.agent, self.window.settings
                then, card = before.card_of(agent), now.card_of(agent)
                self.usable &= then.policy == card.policy and then.context_limit == card.context_limit

    def branch(self) -> CachedWindow:
        """Return a copy that advances by itself, without sessions."""
        made = CachedWindow(
            self.window.branch(), self.blobs, WindowListener(), by_card=self._by_card, begin=self.begin
        )
        made.digest = self.digest
        return made

    @property
    def is_step(self) -> bool:
        """True if a copy of it, a window of the past, shortens the way to later positions."""
        window = self.window
        if not window.is_capped or window.position % STRIDE or not window.position:
            return False
        # A policy counts as if it had always been in force, but before its card another one was asked for.
        now = window.settings.card_of(window.lane.agent)
        return not self._by_card or policy_of_card(now) == window.policy

    @property
    def weight(self) -> int:
        """The memory that the window takes, counted in entries."""
        written = [each.writer.builder.messages for each in self.sessions.values() if each.writer is not None]
        messages = sum(map(len, written))
        return LEAST + self.window.number + messages // 2 + len(self.window.pairing.pairs) // 4


class WindowCache:
    """Cache of a log's last used windows; thread-safe.

    A window has one user at a time: others find none. Tracers of lanes' contexts are cached likewise; see
    `curves`.
    """

    def __init__(self) -> None:
        self._held: OrderedDict[Key, tuple[CachedWindow, int]] = OrderedDict()
        self._rows = 0
        self._tracers: OrderedDict[tuple[int, LaneId], ContextTracer] = OrderedDict()
        self._rates: OrderedDict[tuple[int, LaneId], LaneRates] = OrderedDict()
        self._named: dict[int, tuple[PolicyLike, str]] = {}
        self._requests: OrderedDict[tuple[object, ...], Request] = OrderedDict()
        self._guard = Lock()
        self._writing: Thread | None = None

    def __len__(self) -> int:
        return len(self._held)

    def policy_key(self, policy: PolicyLike) -> str:
        """Return a key's policy, serialised once if it never changes."""
        if policy is None:
            return ""
        found = self._named.get(id(policy))
        if found is None or found[0] is not policy:
            chosen = policy_of(policy)
            found = policy, json.dumps([chosen.json, chosen.pipeline], sort_keys=True)
            if isinstance(policy, Policy | PolicyRule):
                self._named = {**self._named, id(policy): found} if len(self._named) < NAMED else {}
        return found[1]

    def take(self, key: Key) -> CachedWindow | None:
        """Return a window, the caller's until put back; None if not cached."""
        with self._guard:
            held, rows = self._held.pop(key, (None, 0))
            self._rows -= rows
            return held

    def nearest(self, key: Key, at: int) -> CachedWindow | None:
        """Return a key's last window of the past up to a position, the caller's until put back."""
        with self._guard:
            # The numbers first: most windows are of other conversations.
            places = [
                each.at
                for each in self._held
                if each.key == key.key and 0 < each.at <= at and each._replace(at=0) == key
            ]
        return self.take(key._replace(at=max(places))) if places else None

    def put(self, key: Key, held: CachedWindow) -> None:
        """Cache a window; evict the least recently used of too many.

        One with a missing blob is not cached: the blob may be there next time.
        """
        if held.window.measure.missing:
            return
        rows = held.weight
        with self._guard:
            _, replaced = self._held.pop(key, (None, 0))
            self._held[key] = held, rows
            self._rows += rows - replaced
            while self._rows > ROWS and len(self._held) > 1:
                _, (_, gone) = self._held.popitem(last=False)
                self._rows -= gone

    def write(self, work: Callable[[], None]) -> None:
        """Write in a thread, so that no request waits; not if another is writing."""
        with self._guard:
            if self._writing is None or not self._writing.is_alive():
                self._writing = Thread(target=work)
                self._writing.start()

    def settle(self) -> None:
        """Wait for what is being written."""
        if self._writing is not None:
            self._writing.join()

    def close(self) -> None:
        """Store the sessions of the windows."""
        self.settle()
        with self._guard:
            held = [each for key, (each, _) in self._held.items() if not key.at]
        for each in held:
            if (work := each.listener.work(each, at_end=True)) is not None:
                work()

    def remembered(self, key: tuple[object, ...], build: Callable[[], Request]) -> Request:
        """Return a request, built unless cached; the key starts with the conversation's."""
        with self._guard:
            found = self._requests.pop(key, None)
        found = build() if found is None else found
        with self._guard:
            self._requests[key] = found
            if len(self._requests) > REQUESTS:
                self._requests.popitem(last=False)
        return found

    def take_tracer(self, key: tuple[int, LaneId]) -> ContextTracer | None:
        """Return a tracer, the caller's until put back; None if not cached."""
        with self._guard:
            return self._tracers.pop(key, None)

    def put_tracer(self, key: tuple[int, LaneId], tracer: ContextTracer) -> None:
        """Cache a tracer; evict the least recently used of too many.

        Of finished ones, only the newest keeps its window.
        """
        with self._guard:
            for other in self._tracers.values():
                if not other.waiting:
                    other.drop_window()
            self._tracers[key] = tracer
            while len(self._tracers) > TRACERS:
                self._tracers.popitem(last=False)

    def take_rates(self, key: tuple[int, LaneId]) -> LaneRates | None:
        """Return a lane's rates, the caller's until put back; None if not cached."""
        with self._guard:
            return self._rates.pop(key, None)

    def put_rates(self, key: tuple[int, LaneId], rates: LaneRates) -> None:
        """Cache a lane's rates; evict the least recently used of too many."""
        with self._guard:
            self._rates[key] = rates
            while len(self._rates) > RATES:
                self._rates.popitem(last=False)

    def drop(self, key: int) -> None:
        """Drop a conversation's windows."""
        self.settle()  # what it writes must not come after the deletion
        with self._guard:
            for held in [held for held in self._held if held.key == key]:
                self._rows -= self._held.pop(held)[1]
            for held_by_lane in (self._tracers, self._rates):
                for lane in [lane for lane in held_by_lane if lane[0] == key]:
                    del held_by_lane[lane]
            for known in [known for known in self._requests if known[0] == key]:
                del self._requests[known]

    def clear(self) -> None:
        """Drop all windows."""
        self.settle()  # as above
        with self._guard:
            self._held.clear()
            self._tracers.clear()
            self._rates.clear()
            self._requests.clear()
            self._rows = 0


def windows_of(log: LogHandle) -> WindowCache:
    """Return a log's windows."""
    if not isinstance(log.windows, WindowCache):
        log.windows = WindowCache()
    return log.windows
