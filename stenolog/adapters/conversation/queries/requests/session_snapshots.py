"""Snapshots of sessions beside the log: a new process sends what an earlier one has written.

They are checkpoints: one row has the newest state, and each segment of messages is stored once. A thread
writes them, and the close of the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from stenolog.adapters.conversation.queries import folds
from stenolog.adapters.conversation.queries.folds import PersistentFold
from stenolog.adapters.store.contract.values import LAST, Stream
from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.adapters.store.reading.reader import ancestor_streams
from stenolog.adapters.store.sidecar.checkpoints import CheckpointRun
from stenolog.domain.entry import Entry
from stenolog.domain.errors import StenologError
from stenolog.domain.policy import Policy
from stenolog.projections.fold import Fold
from stenolog.projections.formats import DEFAULT_API, FORMATS, format_of
from stenolog.projections.formats.base import Format
from stenolog.projections.formats.writer import Writer
from stenolog.projections.messages.message import PIPELINE
from stenolog.projections.messages.sizes import Counter
from stenolog.projections.requests.incremental import snapshot
from stenolog.projections.requests.incremental.session import RequestSession
from stenolog.projections.requests.incremental.snapshot import (
    CapturedSession,
    MessageSegment,
    ResumableSession,
    SessionSnapshot,
    segment_of,
    without_text,
)

from .window_cache import CachedWindow, Key, WindowListener

SESSION, SEGMENTS = "session ", "segments "
ROWS = ""
"""In the place of an API, for a window whose entries are read again."""
FEWEST = 32
"""The least number of new entries or messages that are worth a snapshot when the log is closed."""
OFTEN, SHARE = 64, 4
"""A window's rows are stored after so many entries, or after one part in so many of the window if larger."""
OLD = 2
"""A session that was not stored since one part in so many of the conversation is dropped."""


class StoredSnapshot(NamedTuple):
    """A snapshot, the policy that it was made `under`, and the stream of each of its segments."""

    under: str
    snapshot: SessionSnapshot
    streams: tuple[int, ...] = ()


STORED = folds.Json(StoredSnapshot)


def name_of(key: Key) -> str:
    """Return the name of a lane's snapshots under a policy; under its card's, whatever that is."""
    return json.dumps([*key.lane, key.policy])


def under(chosen: Policy, counter: Counter) -> str:
    """Return what a snapshot's policy must be equal to."""
    return json.dumps([chosen.json, chosen.counter, counter.id, chosen.pipeline or PIPELINE], sort_keys=True)


def is_registered(wire_name: str) -> bool:
    """Return whether an API of this name and version is here."""
    name = wire_name.partition("@")[0]
    return name in FORMATS and wire(name) == wire_name


def apis_of(conversation: StreamHandle, name: str, api: str | Format | None) -> Iterator[str]:
    """Yield the API that was asked for, and `ROWS`; None: all that a lane's sessions may be stored for."""
    yield wire(DEFAULT_API if api is None else api)
    yield ROWS
    if api is not None:
        return
    # Looked up only if there is none for the most common one, and no rows.
    log, found = conversation.log, dict[str, int]()
    for stream, _ in ancestor_streams(log.recorder, conversation.stream, LAST):
        assert stream.key is not None, "it was asked for"
        for fold, last in log.checkpoints.latest(stream.key, SESSION, name).items():
            api, _, lane = fold.removeprefix(SESSION).partition(" ")
            if lane == name and api and is_registered(api):
                found.setdefault(api, last)
    yield from sorted(found, key=found.__getitem__, reverse=True)


def _fold(name: str, api: str) -> PersistentFold[Any]:
    fold: Fold[Any] = Fold(f"{SESSION}{api} {name}", None, lambda state, entry: state, version=2)
    return PersistentFold(fold, STORED.dump, STORED.load)


class LoadedSnapshot(NamedTuple):
    """A snapshot that was found, the digest of the entry at its position, and its segments."""

    api: str
    stored: StoredSnapshot
    digest: str
    session: ResumableSession | None


def load(conversation: StreamHandle, name: str, api: str, at: int | None = None) -> LoadedSnapshot | None:
    """Return the last snapshot of a session of this log up to a position, if it is whole."""
    digests: folds.Digests = {}
    found, position = folds.load_checkpoint(conversation, _fold(name, api), at, digests)
    if found is None:
        return None
    session, written = None, found.snapshot.written
    if written is not None:
        with suppress(ValueError):
            segments = tuple(_segments(conversation, f"{api} {name}", found.streams))
            session = ResumableSession(written, segments)
        if session is None or not session.is_sound:
            return None
    [digest] = (digest for (_, end), digest in digests.items() if end == position)
    return LoadedSnapshot(api, found, digest.hex(), session)


def _segments(conversation: StreamHandle, name: str, streams: Sequence[int]) -> Iterator[MessageSegment]:
    first = 0
    for stream, run in groupby(streams):
        last = first + len([*run])
        stored = conversation.log.checkpoints.runs(stream, SEGMENTS + name, folds.rules_version())
        yield from (
            segment_of(each.digest, each.changes[0][1]) for each in stored if first <= each.last < last
        )
        first = last


class KeptSegments(NamedTuple):
    """The stored segments of a writer's messages: digests, streams, and the number of messages then."""

    writer: Writer | None = None
    digests: tuple[str, ...] = ()
    streams: tuple[int, ...] = ()
    number: int = 0


class Keeper(WindowListener):
    """Writer of the snapshots of a window and its sessions.

    It does not refer to the log, which is closed when nobody does.
    """

    def __init__(
        self,
        conversation: StreamHandle,
        key: Key,
        under: str,
        position: int,
        loaded: LoadedSnapshot | None = None,
    ) -> None:
        """`position` is where the window begins, after the stored snapshot if one was `loaded`."""
        log = conversation.log
        self.checkpoints, self.recorder = log.checkpoints, log.recorder
        self.stream = Stream(conversation.name, key.key)
        self.key, self.name, self.under = key.key, name_of(key), under
        self.due = FEWEST
        self._rows_at = position
        self._written: dict[str, KeptSegments] = {}
        if loaded is not None and loaded.session is not None:
            digests = loaded.session.written.segments
            self._written[loaded.api] = KeptSegments(None, digests, loaded.stored.streams)

    def take(self, held: CachedWindow, entry: Entry) -> None:
        # Of a window under a cap, so that requests of the past find one near.
        if folds.is_snapshot_position(entry) and held.window.is_capped and not held.window.is_unfit:
            self._write_rows(SessionSnapshot(held.window.snapshot), bytes.fromhex(entry.digest))

    def work(self, held: CachedWindow, *, at_end: bool = False) -> Callable[[], None] | None:
        self.due, digest = held.window.position + FEWEST, bytes.fromhex(held.digest)
        works = [self._work(each, digest, at_end) for each in held.sessions.values() if each.is_storable]
        # After a cut the rows are of use, and no text from before it.
        if (not works or held.window.is_capped) and self._wants_rows(held, at_end):
            rows = without_text(held.window)
            works += [] if rows is None else [partial(self._write_rows, rows, digest)]
        due = [work for work in works if work is not None]
        return partial(_all, due) if due else None

    def _wants_rows(self, held: CachedWindow, at_end: bool) -> bool:
        window = held.window
        least = FEWEST if at_end else max(OFTEN, window.number // SHARE)
        return window.position - self._rows_at >= least

    def _work(self, session: RequestSession, digest: bytes, at_end: bool) -> Callable[[], None] | None:
        writer, api = session.writer, wire(session.api)
        assert writer is not None, "it is storable"
        number, written = writer.number, self._written.get(api, KeptSegments(writer))
        if written.writer is None:
            written = written._replace(writer=writer, number=number)
        elif written.writer is not writer:
            # All was written anew, as after another card. It is not stored anew after each such change.
            written = KeptSegments(writer, number=number + number // 4)
        self._written[api] = written
        due = (len(written.digests) + 1) * snapshot.SEGMENT + snapshot.HELD
        if number < (written.number + FEWEST if at_end else max(written.number, due)):
            return None
        found = session.captured(len(written.digests))
        return None if found is None else partial(self._write, api, written, found, digest, number)

    def _write_rows(self, rows: SessionSnapshot, digest: bytes) -> None:
        self._put(ROWS, StoredSnapshot(self.under, rows), digest)
        self._rows_at = rows.window.position

    def _write(
        self, api: str, written: KeptSegments, found: CapturedSession, digest: bytes, number: int
    ) -> None:
        first, segments = len(written.digests), [*found.segments()]
        runs = (
            CheckpointRun(nth, each.head, ((nth, each.text),)) for nth, each in enumerate(segments, first)
        )
        name, version = f"{SEGMENTS}{api} {self.name}", folds.rules_version()
        self.checkpoints.put(self.key, name, version, *runs, thin=False)
        digests = (*written.digests, *(each.digest for each in segments))
        streams = (*written.streams, *[self.key] * len(segments))
        self._put(api, StoredSnapshot(self.under, found.snapshot(digests), streams), digest)
        self._written[api] = KeptSegments(written.writer, digests, streams, number)

    def _put(self, api: str, stored: StoredSnapshot, digest: bytes) -> None:
        kept, position = _fold(self.name, api), stored.snapshot.window.position
        run = CheckpointRun(position, digest, ((position, kept.dump(stored)),))
        self.checkpoints.put(self.key, kept.fold.name, kept.version, run)
        for name, last in self.checkpoints.latest(self.key, SESSION).items():
            if last < position // OLD:
                self.checkpoints.forget(self.key, name)
                self.checkpoints.forget(self.key, name.replace(SESSION, SEGMENTS, 1))
        with suppress(StenologError):
            folds.erase_outdated(self.checkpoints, self.recorder, self.stream, position)


def _all(works: Sequence[Callable[[], None]]) -> None:
    for work in works:
        work()


def wire(api: str | Format) -> str:
    """Return the name and version of an API."""
    found = format_of(api)
    return f"{found.name}@{found.version}"
