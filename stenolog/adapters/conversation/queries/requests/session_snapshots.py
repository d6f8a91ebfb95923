"""Snapshots of sessions beside the log: a new process sends what an earlier one has written.

They are checkpoints: one row has the newest state, and each segment of messages is stored once. A thread
writes them, and the close of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from stenolog.adapters.conversation.queries import folds
from stenolog.adapters.conversation.queries.folds import PersistentFold
from stenolog.adapters.store.contract.values import LAST
from stenolog.adapters.store.reading import reader
from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.adapters.store.sidecar.checkpoints import CheckpointRun
from stenolog.domain.errors import StenologError
from stenolog.projections.fold import Fold
from stenolog.projections.formats import format_of
from stenolog.projections.formats.base import Format
from stenolog.projections.formats.writer import Writer
from stenolog.projections.requests.incremental import snapshot
from stenolog.projections.requests.incremental.session import RequestSession
from stenolog.projections.requests.incremental.snapshot import (
    CapturedSession,
    ResumableSession,
    SessionSnapshot,
    unpacked,
)

from .window_cache import CachedWindow, WindowListener

SESSION = "session "
FEWEST = 32
"""The least number of new messages that are worth a snapshot when the log is closed."""


class StoredSnapshot(NamedTuple):
    """A snapshot, and the stream of each of its segments."""

    snapshot: SessionSnapshot
    streams: tuple[int, ...] = ()


STORED = folds.Json(StoredSnapshot)


def _fold(name: str, api: str) -> PersistentFold[Any]:
    fold: Fold[Any] = Fold(f"{SESSION}{api} {name}", None, lambda state, entry: state)
    return PersistentFold(fold, STORED.dump, STORED.load)


def _segment(name: str, api: str, nth: int) -> str:
    return f"segment {nth} of {api} {name}"


class LoadedSnapshot(NamedTuple):
    """A snapshot that was found, with the digest of the entry at its position."""

    stored: ResumableSession
    streams: tuple[int, ...]
    digest: str


def load(conversation: StreamHandle, name: str, api: str) -> LoadedSnapshot | None:
    """Return the newest snapshot of a session of this log, if it is whole."""
    checkpoints = conversation.log.checkpoints
    found, position = folds.load_checkpoint(conversation, _fold(name, api), None)
    if found is None:
        return None
    segments = []
    for nth, stream in enumerate(found.streams):
        segment = checkpoints.get(stream, _segment(name, api, nth), folds.rules_version(), LAST)
        if segment is None:
            return None
        segments.append(unpacked(segment.state))
    stored = ResumableSession(found.snapshot, tuple(segments))
    digest = reader.digest_at(conversation.log.recorder, conversation.stream, position)
    return LoadedSnapshot(stored, found.streams, digest.hex()) if stored.is_sound else None


class KeptSegments(NamedTuple):
    """The stored segments of a writer's messages: digests, streams, and the number of messages then."""

    writer: Writer | None = None
    digests: tuple[str, ...] = ()
    streams: tuple[int, ...] = ()
    number: int = 0


class Keeper(WindowListener):
    """Writer of the snapshots of a window's sessions.

    It does not refer to the log, which is closed when nobody does.
    """

    def __init__(self, conversation: StreamHandle, name: str) -> None:
        log = conversation.log
        self.checkpoints, self.recorder, self.seals = log.checkpoints, log.recorder, log.seals
        self.key, self.name = conversation.key or 0, name
        self.due = FEWEST
        self._written: dict[str, KeptSegments] = {}

    def resume(self, api: str, loaded: LoadedSnapshot) -> None:
        self._written[api] = KeptSegments(None, loaded.stored.snapshot.segments, loaded.streams)

    def work(self, held: CachedWindow, *, at_end: bool = False) -> Callable[[], None] | None:
        self.due = held.window.position + FEWEST
        works = [self._work(session, held.digest, at_end) for session in held.sessions.values()]
        due = [work for work in works if work is not None]
        return partial(_all, due) if due else None

    def _work(self, session: RequestSession, digest: str, at_end: bool) -> Callable[[], None] | None:
        writer, api = session.writer, wire(session.api)
        if writer is None:
            return None
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
        if found is None:
            return None
        return partial(self._write, api, written, found, bytes.fromhex(digest), number)

    def _write(
        self, api: str, written: KeptSegments, found: CapturedSession, digest: bytes, number: int
    ) -> None:
        put, version = self.checkpoints.put, folds.rules_version()
        digests, streams = written.digests, written.streams
        for segment in found.segments():
            run = CheckpointRun(1, b"", ((1, segment.packed),))
            put(self.key, _segment(self.name, api, len(digests)), version, run)
            digests, streams = (*digests, segment.digest), (*streams, self.key)
        kept, position = _fold(self.name, api), found.window.position
        state = kept.dump(StoredSnapshot(found.snapshot(digests), streams))
        put(self.key, kept.fold.name, kept.version, CheckpointRun(position, digest, ((position, state),)))
        self._written[api] = KeptSegments(written.writer, digests, streams, number)
        with suppress(StenologError):
            is_here = self.recorder.conversations.name_of(self.key) is not None
            # It was deleted, or words of it were erased, by another process.
            if not (is_here and self.seals.fits(self.recorder.seal_key)):
                self.checkpoints.erase_stream(self.key)


def _all(works: Sequence[Callable[[], None]]) -> None:
    for work in works:
        work()


def wire(api: str | Format) -> str:
    """Return the name and version of an API."""
    found = format_of(api)
    return f"{found.name}@{found.version}"
