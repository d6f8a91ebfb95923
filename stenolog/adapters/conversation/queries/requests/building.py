"""The request of a lane of a stored conversation, reading only what is in its window.

A new process continues from the snapshot that another one has stored (`session_snapshots`). Requests of the
past are made of copies of windows that were on the way to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from operator import attrgetter
from time import perf_counter
from typing import Literal, NamedTuple

from stenolog.adapters.conversation.queries import folds
from stenolog.adapters.store.contract.values import Stream
from stenolog.adapters.store.reading import reader
from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.adapters.store.reading.reader import SOME, peek
from stenolog.domain.entry import Entry, to_entry
from stenolog.domain.erasure import DAMAGED
from stenolog.domain.errors import PositionNotFoundError, StenologError
from stenolog.domain.events import Damaged
from stenolog.domain.lanes.state import Blocked, blocked_error
from stenolog.domain.policy import Policy, PolicyLike
from stenolog.domain.settings import NOTHING
from stenolog.projections.formats.base import Format
from stenolog.projections.messages.sizes import Counter
from stenolog.projections.requests import LaneId, Request
from stenolog.projections.requests.choosing import choose
from stenolog.projections.requests.incremental.window import PartialWindowError, Window
from stenolog.projections.requests.incremental.window_snapshot import START, WindowSnapshot
from stenolog.projections.requests.pipeline.budget import caps

from . import session_snapshots
from .token_counters import COUNTERS
from .window_cache import CachedWindow, Key, WindowListener, windows_of

GAP, SPARE = 3, 32
"""Rows beyond the window that are read to ask fewer questions: between two runs of it, and in all."""
POSITION = attrgetter("position")


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
    lane = LaneId(agent, task)
    out = api
    # At the head the window knows it.
    if api is None and at is not None:
        from .lanes import api_of  # late: for requests of the past

        out = api_of(conversation, lane)
    if counters is not COUNTERS:
        key = Key(conversation.key or 0, lane, windows_of(conversation.log).policy_key(policy))
        return _fresh(conversation, key, at, policy, counters).request(out)
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
    """Keep windows of a lane up to a position in memory, for later requests.

    Return False if its policy cuts none, and shows everything.
    """
    now = folds.fold_at(conversation, folds.SETTINGS, at)
    if not caps(choose(now, agent, None, COUNTERS)[0]):
        return False
    holding, key = windows_of(conversation.log), Key(conversation.key or 0, LaneId(agent, task), "")
    holding.put(key._replace(at=at), _past(conversation, key, at, None)[0])
    return True


def _build(
    conversation: StreamHandle, lane: LaneId, at: int | None, out: str | Format | None, policy: PolicyLike
) -> tuple[Request, CachedWindow, bool]:
    holding = windows_of(conversation.log)
    key = Key(conversation.key or 0, lane, holding.policy_key(policy))
    if at is not None:
        past, in_memory = _past(conversation, key, at, policy)
        request = past.request(out)
        holding.put(key._replace(at=at), past)
        return request, past, in_memory
    held, in_memory = holding.take(key), False
    try:
        in_memory = held is not None and _goes_on(conversation, held)
        if held is None or not in_memory:
            held = _resumed(conversation, key, policy, out) or _fresh(conversation, key, None, policy)
        request = held.request(out)
    except PartialWindowError:
        held, in_memory = _fresh(conversation, key, None, policy), False
        request = held.request(out)
    work = held.listener.work(held) if held.window.position >= held.listener.due else None
    holding.put(key, held)  # from now on it may be somebody else's
    if work is not None:
        holding.write(work)
    return request, held, in_memory


def _resumed(
    conversation: StreamHandle, key: Key, policy: PolicyLike, out: str | Format | None
) -> CachedWindow | None:
    """Return the window of the last process's session, at the head; None if it left none of use."""
    name = session_snapshots.name_of(key)
    for api in session_snapshots.apis_of(conversation, name, out):
        if (found := session_snapshots.load(conversation, name, api)) is not None:
            break
    else:
        return None
    # The card's policy then; another one that came later makes the window unusable.
    try:
        chosen = choose(found.stored.snapshot.window.settings, key.lane.agent, policy, COUNTERS)
    except StenologError:
        return None  # it needs a counter or a rule that is not here, and today's may not
    if found.stored.under != session_snapshots.under(*chosen):
        return None
    held = _of(conversation, key, policy, found, chosen)
    if found.session is not None:
        found.session.window(held.window, lambda at: _fresh(conversation, key, at, policy).window)
        held.resume(out or found.api.partition("@")[0] or held.window.api, found.session)
    # Of a fork the stored position may be its parent's.
    if not _goes_on(conversation, held) and held.usable:
        _extend(conversation, held, None)
    return held if held.usable else None


def branch_at(conversation: StreamHandle, lane: LaneId, at: int, policy: PolicyLike) -> Window:
    """Return a lane's window at a position, for the caller to advance."""
    holding = windows_of(conversation.log)
    key = Key(conversation.key or 0, lane, holding.policy_key(policy))
    held, _ = _past(conversation, key, at, policy)
    branch = held.window.branch()
    holding.put(key._replace(at=at), held)
    return branch


def _past(conversation: StreamHandle, key: Key, at: int, policy: PolicyLike) -> tuple[CachedWindow, bool]:
    held = windows_of(conversation.log).nearest(key, at)
    if held is not None and held.usable and _is_of(conversation, held):
        _extend(conversation, held, at, key)
        if held.usable and held.window.position == at:
            return held, True
    return _fresh(conversation, key, at, policy), False


def _is_of(conversation: StreamHandle, held: CachedWindow) -> bool:
    with suppress(PositionNotFoundError):
        digest = reader.digest_at(conversation.log.recorder, conversation.stream, held.window.position)
        return digest.hex() == held.digest
    return False


def _extend(conversation: StreamHandle, held: CachedWindow, at: int | None, past: Key | None = None) -> None:
    """Take the entries up to a position in; with a key, leave copies of the window in memory on the way."""
    entries = conversation.entries(held.window.position, at)
    if past is None:
        held.extend(entries)
        return
    for entry in entries:
        if held.is_step:
            windows_of(conversation.log).put(past._replace(at=held.window.position), held.branch())
        held.extend((entry,))


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
    written = stream.written.copy()
    if not written or written[-1].position <= here:
        return []
    # Decoded anew: the caller may have changed the event that it appended.
    own = [to_entry(stream.name, record) for record in written if record.position > here]
    return own if [*map(POSITION, own)] == [*range(here + 1, here + len(own) + 1)] else []


def _fresh(
    conversation: StreamHandle,
    key: Key,
    at: int | None,
    policy: PolicyLike,
    counters: Mapping[str, Counter] = COUNTERS,
) -> CachedWindow:
    """Return a window from the last snapshot of its rows, or from the beginning."""
    lane = key.lane
    now = folds.fold_at(conversation, folds.SETTINGS, at) if policy is None else NOTHING
    chosen = choose(now, lane.agent, policy, counters)
    found = None
    if caps(chosen[0]):
        name = session_snapshots.name_of(key)
        found = session_snapshots.load(conversation, name, session_snapshots.ROWS, at)
        if found is not None and found.stored.under != session_snapshots.under(*chosen):
            found = None
    held = _of(conversation, key, policy, found, chosen)
    if counters is not COUNTERS:
        held.listener = WindowListener()
    _extend(conversation, held, at, None if at is None or counters is not COUNTERS else key)
    if policy is None and choose(held.window.settings, lane.agent, None, counters)[0] != chosen[0]:
        return _fresh(conversation, key, at, policy, counters)  # a card has come meanwhile
    held.usable = True  # this is the policy that was chosen, whatever cards there were before
    if not held.digest and held.window.position:
        digest = reader.digest_at(conversation.log.recorder, conversation.stream, held.window.position)
        held.digest = digest.hex()
    return held


def _of(
    conversation: StreamHandle,
    key: Key,
    policy: PolicyLike,
    found: session_snapshots.LoadedSnapshot | None,
    chosen: tuple[Policy, Counter],
) -> CachedWindow:
    """Return the window that goes on from a snapshot; without one, at the beginning."""
    begin, blobs = START if found is None else found.stored.snapshot.window, conversation.log.blobs
    window = Window(key.lane, *chosen, begin, rows_of(conversation, begin), blobs)
    held = CachedWindow(window, blobs, WindowListener(), by_card=policy is None, begin=begin.position)
    if conversation.log.stores_sessions:
        under = session_snapshots.under(*chosen)
        held.listener = session_snapshots.Keeper(conversation, key, under, begin.position, found)
    if found is not None:
        held.digest = found.digest
    return held


def rows_of(conversation: StreamHandle, snapshot: WindowSnapshot) -> Iterator[Entry]:
    """Yield the entries of a snapshot."""
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
