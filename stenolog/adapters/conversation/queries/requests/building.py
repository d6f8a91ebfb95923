"""The request of a lane of a stored conversation, reading only what is in its window.

A window with a cap writes a snapshot every so many entries; a window without one stores what it has written
(`session_snapshots`). Another process continues from either.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from time import perf_counter
from typing import Literal, NamedTuple

from stenolog.adapters.conversation.queries import folds
from stenolog.adapters.conversation.queries.folds import PersistentFold
from stenolog.adapters.store.contract.values import Stream
from stenolog.adapters.store.reading import reader
from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.adapters.store.reading.reader import SOME, peek
from stenolog.adapters.store.sidecar.checkpoints import Checkpoints
from stenolog.domain.entry import Entry, to_entry
from stenolog.domain.erasure import DAMAGED
from stenolog.domain.errors import PositionNotFoundError, StenologError
from stenolog.domain.events import Damaged
from stenolog.domain.lanes.state import Blocked, blocked_error
from stenolog.domain.policy import Policy, PolicyLike
from stenolog.domain.policy import policy as policy_of
from stenolog.domain.settings import NOTHING
from stenolog.projections.fold import Fold
from stenolog.projections.formats.base import Format
from stenolog.projections.messages.message import PIPELINES
from stenolog.projections.messages.sizes import Counter
from stenolog.projections.requests import DEFAULT_API, PIPELINE, LaneId, Request
from stenolog.projections.requests.choosing import choose
from stenolog.projections.requests.incremental.window import START, PartialWindowError, Window, WindowSnapshot
from stenolog.projections.requests.pipeline.budget import caps

from . import session_snapshots
from .token_counters import COUNTERS
from .window_cache import CachedWindow, Key, Rung, SnapshotLadder, WindowListener, windows_of

GAP, SPARE = 3, 32
"""Rows beyond the window that are read to ask fewer questions: between two runs of it, and in all."""
FAR = 32
"""Entries that a window of the past takes in rather than to be made of a snapshot."""
POSITION = attrgetter("position")
WINDOW = "window "
SNAPSHOT = folds.Json(WindowSnapshot)


class BuiltRequest(NamedTuple):
    """A built request, its seconds, and its window's number of entries.

    `source` is the window's: this process's "memory", a "snapshot" beside the log, or the whole "log".
    """

    request: Request
    seconds: float
    source: Literal["memory", "snapshot", "log"]
    entries: int


def request(
    conversation: StreamHandle,
    agent: str,
    task: str,
    at: int | None,
    api: str | Format | None,
    policy: PolicyLike,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Request:
    """See `Conversation.request`."""
    out = DEFAULT_API if api is None else api
    lane = LaneId(agent, task)
    if counters is not COUNTERS:
        return _fresh(conversation, lane, at, policy, counters).request(out)
    observer = conversation.log.on_request
    if observer is None:
        return _build(conversation, lane, at, out, policy)[0]
    begin = perf_counter()
    built, held, in_memory = _build(conversation, lane, at, out, policy)
    seconds = perf_counter() - begin
    source: Literal["snapshot", "log"] = "snapshot" if held.begin else "log"
    entries = held.window.number
    observer(BuiltRequest(built, seconds, "memory" if in_memory else source, entries))
    return built


def keep_past(conversation: StreamHandle, agent: str, task: str, at: int) -> bool:
    """Keep snapshots of a lane's window up to a position in memory, for later requests.

    Return False if its policy has none, and shows everything.
    """
    now = folds.fold_at(conversation, folds.SETTINGS, at)
    if not caps(choose(now, agent, None, COUNTERS)[0]):
        return False
    _fresh(conversation, LaneId(agent, task), at, None, COUNTERS)
    return True


def _build(
    conversation: StreamHandle, lane: LaneId, at: int | None, out: str | Format, policy: PolicyLike
) -> tuple[Request, CachedWindow, bool]:
    holding = windows_of(conversation.log)
    key = Key(conversation.key or 0, lane, holding.policy_key(policy), past=at is not None)
    held = holding.take(key)
    in_memory = False
    try:
        in_memory = held is not None and (
            _goes_on(conversation, held) if at is None else _steps_to(conversation, held, at)
        )
        if held is None or not in_memory:
            held = _fresh(conversation, lane, at, policy, COUNTERS, out if at is None else None)
        request = held.request(out)
    except PartialWindowError:
        held, in_memory = _fresh(conversation, lane, at, policy, COUNTERS), False
        request = held.request(out)
    work = held.listener.work(held) if held.window.position >= held.listener.due else None
    holding.put(key, held)  # from now on it may be somebody else's
    if work is not None:
        holding.write(work)
    return request, held, in_memory


def _resumed(
    conversation: StreamHandle,
    lane: LaneId,
    policy: PolicyLike,
    chosen: tuple[Policy, Counter],
    out: str | Format,
) -> CachedWindow | None:
    name, api = _snapshot_name(lane, *chosen), session_snapshots.wire(out)
    found = session_snapshots.load(conversation, name, api)
    if found is None:
        return None
    tail = found.stored.snapshot.window
    window = Window(lane, *chosen, tail, _rows(conversation, tail), conversation.log.blobs)
    found.stored.window(window, lambda at: _fresh(conversation, lane, at, policy, COUNTERS).window)
    keeper = session_snapshots.Keeper(conversation, name)
    keeper.resume(api, found)
    held = CachedWindow(window, conversation.log.blobs, keeper, by_card=policy is None, begin=window.position)
    held.digest = found.digest
    held.resume(out, found.stored)
    held.extend(conversation.entries(window.position))
    return held if held.usable else None


def branch_at(conversation: StreamHandle, lane: LaneId, at: int, policy: PolicyLike) -> Window:
    """Return a lane's window at a position, for the caller to advance."""
    holding = windows_of(conversation.log)
    key = Key(conversation.key or 0, lane, holding.policy_key(policy), past=True)
    held = holding.take(key)
    if held is None or not _steps_to(conversation, held, at):
        held = _fresh(conversation, lane, at, policy, COUNTERS)
    branch = held.window.branch()
    holding.put(key, held)
    return branch


def _steps_to(conversation: StreamHandle, held: CachedWindow, at: int) -> bool:
    """Advance a past window; return whether it is still of this log."""
    here = held.window.position
    if not held.usable or not 0 < here <= at:
        return False
    if held.ladder is not None and at - here > FAR and _rung(conversation, held.ladder, at).position > here:
        return False
    try:
        digest = reader.digest_at(conversation.log.recorder, conversation.stream, here)
    except PositionNotFoundError:
        return False
    if digest.hex() == held.digest:
        held.extend(conversation.entries(here, at))
    return held.usable and held.window.position == at


def _goes_on(conversation: StreamHandle, held: CachedWindow) -> bool:
    """Advance a window by the log's new entries; return whether it is still of this log."""
    own = _appended(conversation.stream, held.window.position)
    while held.usable:
        # What this process has appended is in the log as it is, if the last of it is.
        here, digest = (own[-1].position, own[-1].digest) if own else (held.window.position, held.digest)
        new = peek(conversation.log.recorder, conversation.stream, here, digest)
        if new is None:
            return False
        if own or new:
            held.extend([*own, *new])
        own = []
        if len(new) < SOME:
            return held.usable
    return False


def _appended(stream: Stream, here: int) -> list[Entry]:
    """Return the entries after a position that this process has appended, if no other is between."""
    written = stream.written.copy()
    if not written or written[-1].position <= here:
        return []
    # Decoded anew: the caller may have changed the event that it appended.
    own = [to_entry(stream.name, record) for record in written if record.position > here]
    return own if [*map(POSITION, own)] == [*range(here + 1, here + len(own) + 1)] else []


def _fresh(
    conversation: StreamHandle,
    lane: LaneId,
    at: int | None,
    policy: PolicyLike,
    counters: Mapping[str, Counter],
    out: str | Format | None = None,
) -> CachedWindow:
    """Return a window from its last snapshot and later entries; for requests on `out`, from a session's."""
    now = folds.fold_at(conversation, folds.SETTINGS, at) if policy is None else NOTHING
    chosen, counter = choose(now, lane.agent, policy, counters)
    kept = _snapshots(lane, chosen, counter) if caps(chosen) else None
    if kept is None and out is not None:
        resumed = _resumed(conversation, lane, policy, (chosen, counter), out)
        if resumed is not None:
            return resumed
    ladder = _ladder(conversation, kept) if kept is not None and at is not None else None
    snapshot = START if kept is None else folds.load_checkpoint(conversation, kept, at)[0]
    if ladder is not None and at is not None:
        snapshot = max(snapshot, _rung(conversation, ladder, at), key=lambda found: found.position)
    window = Window(lane, chosen, counter, snapshot, _rows(conversation, snapshot), conversation.log.blobs)
    listener = WindowListener()
    if kept is not None:
        listener = SnapshotWriter(conversation, kept, window, ladder)
    elif at is None and counters is COUNTERS:
        listener = session_snapshots.Keeper(conversation, _snapshot_name(lane, chosen, counter))
    held = CachedWindow(
        window, conversation.log.blobs, listener, by_card=policy is None, begin=snapshot.position
    )
    held.ladder = ladder
    held.extend(conversation.entries(snapshot.position, at))
    if policy is None and choose(window.settings, lane.agent, None, counters)[0] != chosen:
        return _fresh(conversation, lane, at, policy, counters)  # a card has come meanwhile
    held.usable = True  # this is the policy that was chosen, whatever cards there were before
    if not held.digest and window.position:
        held.digest = reader.digest_at(conversation.log.recorder, conversation.stream, window.position).hex()
    return held


class SnapshotWriter(WindowListener):
    """Writer of a window's snapshots, for the next process.

    For a past window it keeps more of them, in memory.
    """

    def __init__(
        self,
        conversation: StreamHandle,
        kept: PersistentFold[WindowSnapshot],
        window: Window,
        ladder: SnapshotLadder | None,
    ) -> None:
        self.conversation, self.kept, self.window, self.ladder = conversation, kept, window, ladder
        self._at, self._cuts = window.position, window.cuts
        self._last: Entry | None = None

    def take(self, entry: Entry) -> None:
        self._last = entry
        if self.ladder is not None and self.ladder.wants(entry.position) and not self._is_unfit:
            self.ladder.add(Rung(entry.position, entry.digest, self.window.snapshot))
        if folds.is_snapshot_position(entry) and not self._is_unfit:
            folds.save_checkpoint(self.conversation, self.kept, entry, self.window.snapshot)

    @property
    def _is_unfit(self) -> bool:
        return self.window.measure.missing or self.window.may_be_uncut

    def finish(self) -> None:
        """Write a snapshot of the window, if far enough or after a cut.

        After a cut the previous snapshot names rows that are no longer needed.
        """
        is_far = self.window.position - self._at >= folds.WORTH_KEEPING
        if self.ladder is not None or self._last is None or self._is_unfit:
            return
        if is_far or self.window.cuts > self._cuts:
            folds.save_checkpoint(self.conversation, self.kept, self._last, self.window.snapshot)
            self._at, self._cuts = self.window.position, self.window.cuts


def _ladder(conversation: StreamHandle, kept: PersistentFold[WindowSnapshot]) -> SnapshotLadder:
    name = f"{kept.fold.name} {kept.version}"
    return windows_of(conversation.log).ladder(conversation.key or 0, name)


def _rung(conversation: StreamHandle, ladder: SnapshotLadder, at: int) -> WindowSnapshot:
    """Return the last snapshot in memory up to a position, or the beginning."""
    found = ladder.nearest(at)
    if found is None:
        return START
    with suppress(PositionNotFoundError):
        stored = reader.digest_at(conversation.log.recorder, conversation.stream, found.position)
        if stored.hex() == found.digest:
            return found.snapshot
    ladder.clear()
    return START


def _rows(conversation: StreamHandle, snapshot: WindowSnapshot) -> Iterator[Entry]:
    held = {position for first, last in snapshot.rows for position in range(first, last + 1)}
    for first, last in _joined(snapshot.rows):
        for entry in conversation.entries(first - 1, last):
            if entry.position in held:
                if isinstance(entry.event, Damaged):
                    raise blocked_error(Blocked(entry.position, DAMAGED, entry.event.reason))
                yield entry


def _joined(runs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the runs, merged over gaps of at most `GAP` rows each and `SPARE` rows in total."""
    joined: list[tuple[int, int]] = []
    spare = SPARE
    for first, last in runs:
        gap = first - joined[-1][1] - 1 if joined else SPARE + 1
        if gap <= min(GAP, spare):
            spare -= gap
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined


def _snapshots(lane: LaneId, policy: Policy, counter: Counter) -> PersistentFold[WindowSnapshot]:
    """Return the fold of a window's snapshots, named by lane, policy and counter."""
    name = WINDOW + _snapshot_name(lane, policy, counter)
    return PersistentFold(Fold(name, START, lambda snapshot, entry: snapshot), SNAPSHOT.dump, SNAPSHOT.load)


def _snapshot_name(lane: LaneId, policy: Policy, counter: Counter) -> str:
    asked = [lane.agent, lane.task, policy.json, policy.counter, counter.id, policy.pipeline or PIPELINE]
    return json.dumps(asked, sort_keys=True)


def with_snapshots(
    checkpoints: Checkpoints, key: int, counters: Mapping[str, Counter], blobs: Mapping[str, bytes]
) -> Iterator[tuple[PersistentFold[WindowSnapshot], Window]]:
    """Yield each window of a stream that has snapshots, at its beginning, to check them."""
    for name in checkpoints.names(key):
        if name.startswith(WINDOW):
            agent, task, given, counter, version, pipeline = json.loads(name.removeprefix(WINDOW))
            try:
                lane, chosen, found = LaneId(agent, task), policy_of(given), counters[counter]
            except (StenologError, KeyError):
                continue  # by a release, or with an extra, that is not here
            if found.id == version and pipeline in PIPELINES:
                chosen = replace(chosen, pipeline=None if pipeline == PIPELINE else pipeline)
                yield _snapshots(lane, chosen, found), Window(lane, chosen, found, blobs=blobs)
