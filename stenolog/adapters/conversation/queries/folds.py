"""Folds kept up to date: a checkpoint, and the entries since.

>>> from stenolog.projections.fold import fold
>>> @fold(initial=0, state=int, name="entries")
... def count(total, entry):
...     return total + 1
>>> persistent(count).dump(3)
b'3'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Generic, TypeAlias, TypeVar

from pydantic_core import SchemaSerializer, SchemaValidator

from stenolog._version import __version__
from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import LAST, Head, Stream
from stenolog.adapters.store.reading import reader as reader_module
from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.adapters.store.sidecar.checkpoints import RUN, CheckpointRun, Checkpoints, interval_for
from stenolog.domain.base.schema import schema_of
from stenolog.domain.entry import Entry
from stenolog.domain.erasure import erasure_of
from stenolog.domain.errors import PositionNotFoundError
from stenolog.domain.events import Damaged, ModeSwitch
from stenolog.domain.lanes import turns
from stenolog.domain.lanes.state import State
from stenolog.domain.lanes.step import INITIAL, evolve
from stenolog.domain.policy import HISTORIES
from stenolog.domain.settings import NOTHING, Settings, configure
from stenolog.projections.fold import Fold

S = TypeVar("S")
WORTH_KEEPING = 32
"""So many entries must have been folded before their state is worth a checkpoint."""
SPACING = 4096
"""So many entries are folded at most until their result is kept."""
BATCH = 32
"""So many runs are written at once."""


@dataclass(frozen=True)
class PersistentFold(Generic[S]):
    """A fold whose state can be stored: `load(dump(state)) == state`."""

    fold: Fold[S]
    dump: Callable[[S], bytes]
    load: Callable[[bytes], S]

    @property
    def version(self) -> str:
        """The version that a checkpoint must match: the fold's and `rules_version()`."""
        return f"{self.fold.version} of {rules_version()}"


def rules_version() -> str:
    """Return the release, and name and version of each rule of plugins, which may change folds."""
    return " ".join((__version__, *turns.TURN_RULES.additions(), *HISTORIES.additions()))


def persistent(fold: Fold[S]) -> PersistentFold[S]:
    """Return a fold with its state stored as JSON by pydantic."""
    json = json_of(fold.state)
    return PersistentFold(fold, json.dump, json.load)


@cache
def json_of(kind: Any) -> Json[Any]:
    """Return a type as JSON, with one adapter per process."""
    return Json(kind)


class Json(Generic[S]):
    """A type as JSON. What it takes is made at first use."""

    def __init__(self, kind: type[S]) -> None:
        self.kind = kind

    def dump(self, value: S) -> bytes:
        return self._serializer.to_json(value)

    def load(self, text: bytes) -> S:
        found: S = self._validator.validate_json(text)
        return found

    @cached_property
    def _serializer(self) -> SchemaSerializer:
        return SchemaSerializer(schema_of(self.kind))

    @cached_property
    def _validator(self) -> SchemaValidator:
        return SchemaValidator(schema_of(self.kind))


Digests: TypeAlias = dict[tuple[int, int], bytes]
"""Digests of entries that were read, by the key of the stream and the position."""
STATE = persistent(Fold("state", INITIAL, evolve, version=7, state=State))
SETTINGS = persistent(Fold("settings", NOTHING, configure, kinds=(ModeSwitch,), version=2, state=Settings))


def fold_at(conversation: StreamHandle, kept: PersistentFold[S], at: int | None = None) -> S:
    """Return the fold's state at `at`, from a matching checkpoint and later entries."""
    state: S
    (state,) = folds_at(conversation, (kept,), at)
    return state


def folds_at(
    conversation: StreamHandle, folds: Sequence[PersistentFold[Any]], at: int | None = None
) -> list[Any]:
    """Return several folds' states at a position, reading the entries once."""
    return [each.state for each in open_folds(conversation, folds, at)]


def open_folds(
    conversation: StreamHandle, folds: Sequence[PersistentFold[Any]], at: int | None = None
) -> list[FoldCursor[Any]]:
    """Fold entries up to `at`; return cursors that can advance."""
    digests: Digests = {}
    foldings = [FoldCursor(conversation, kept, at, digests) for kept in folds]
    after = min(each.position for each in foldings)
    read: Entry | Head | None = None
    for read in _read(conversation, folds, after, at) if after != at else ():
        for each in foldings:
            each.add(read)
    if read is not None:
        for each in foldings:
            each.finish(read, at_head=at is None)
    return foldings


def _read(
    conversation: StreamHandle, folds: Sequence[PersistentFold[Any]], after: int, at: int | None
) -> Iterator[Entry | Head]:
    if all(kept.fold.kinds for kept in folds):
        kinds = {kind for kept in folds for kind in kept.fold.kinds}
        return reader_module.of_kinds(conversation.log.recorder, conversation.stream, kinds, after, at)
    return conversation.entries(after, at)


class FoldCursor(Generic[S]):
    """A fold that advances through a conversation.

    States are stored as it passes, large ones less often.
    """

    def __init__(
        self, conversation: StreamHandle, kept: PersistentFold[S], at: int | None, digests: Digests
    ) -> None:
        self.conversation = conversation
        self.kept = kept
        self.state, self.position = load_checkpoint(conversation, kept, at, digests)
        self._begun = self.position
        self._after = kept.fold.after if kept.fold.kinds else kept.fold.evolve
        self._room = RUN
        self._runs: list[CheckpointRun] = []
        self._is_written = False
        self._is_keepable = True  # until an entry names a turn rule that is not registered here
        self._begin()

    def _begin(self) -> None:
        self._kept_at = self.position
        self._since = {self.position + 1: self.state}
        self._changed = False

    def add(self, read: Entry | Head) -> None:
        """Read the next entry, or note skipped ones."""
        if read.position <= self.position:
            return
        self.position = read.position
        if isinstance(read, Entry):
            if isinstance(read.event, Damaged):
                self._is_keepable = False
            if type(read.event) is ModeSwitch and not turns.is_known(read.event.turns):
                self._is_keepable = False
            before, self.state = self.state, self._after(self.state, read)
            if self.state is not before:
                self._note()
        if self.position - self._kept_at >= (self._room if self._changed else SPACING):
            self._keep(read)

    def finish(self, read: Entry | Head, *, at_head: bool) -> None:
        """Write remaining states, at the head also the last position's if far enough."""
        if at_head and self.position - self._begun >= WORTH_KEEPING and self.position > self._kept_at:
            self._keep(read)
        self._write(read.position if at_head else None)

    def _note(self) -> None:
        if self._room > RUN:
            self._since.clear()
        self._since[self.position] = self.state
        self._changed = True

    def _keep(self, read: Entry | Head) -> None:
        if not self._is_keepable:
            return
        last = self.kept.dump(self.state)
        self._room = interval_for(len(last))
        *before, changed = self._since
        past = [(at, self.kept.dump(self._since[at])) for at in before] if self._room == RUN else []
        self._runs.append(CheckpointRun(read.position, _digest(read), (*past, (changed, last))))
        self._begin()
        if len(self._runs) >= BATCH:
            self._write()

    def _write(self, head: int | None = None) -> None:
        if self._runs:
            _put(self.conversation, self.kept, *self._runs)
            self._runs.clear()
            self._is_written = True
        elif head is None:
            return
        if self._is_written:
            log = self.conversation.log
            erase_outdated(log.checkpoints, log.recorder, self.conversation.stream, head)


def is_at(conversation: StreamHandle, position: int, digest: str) -> bool:
    """Return whether what was read up to a position, with this digest, is what the conversation has."""
    if not position:
        return True
    try:
        found = reader_module.digest_at(conversation.log.recorder, conversation.stream, position)
    except PositionNotFoundError:
        return False
    return found.hex() == digest


def is_snapshot_position(entry: Entry) -> bool:
    """Return whether an entry's state is stored permanently, so that past states load quickly."""
    return entry.position % SPACING == SPACING - 1


def load_checkpoint(
    conversation: StreamHandle, kept: PersistentFold[S], at: int | None, digests: Digests | None = None
) -> tuple[S, int]:
    """Return state and position of the last usable checkpoint, or the initial state and 0.

    A fork starts with its parent's checkpoints. A checkpoint of another log, or one that `dump` does not
    write, is deleted, with every other checkpoint of that conversation. `digests` have been read already;
    this adds to them.
    """
    digests = {} if digests is None else digests
    checkpoints, recorder = conversation.log.checkpoints, conversation.log.recorder
    for stream, last in reader_module.ancestor_streams(
        recorder, conversation.stream, LAST if at is None else at
    ):
        assert stream.key is not None, "it was asked for"
        found = checkpoints.get(stream.key, kept.fold.name, kept.version, last)
        if found is not None:
            with suppress(PositionNotFoundError, ValueError):
                # Of several folds, most checkpoints end at the same entry.
                if (place := (stream.key, found.end)) not in digests:
                    digests[place] = reader_module.digest_at(recorder, stream, found.end)
                if digests[place] == found.digest:
                    return kept.load(found.state), found.position
            checkpoints.drop(stream.key)
    return kept.fold.initial, 0


def save_checkpoint(conversation: StreamHandle, kept: PersistentFold[S], entry: Entry, state: S) -> None:
    """Keep the state of a fold at the last entry that was read."""
    _put(
        conversation,
        kept,
        CheckpointRun(entry.position, _digest(entry), ((entry.position, kept.dump(state)),)),
    )
    log = conversation.log
    erase_outdated(log.checkpoints, log.recorder, conversation.stream, entry.position)


def erase_outdated(checkpoints: Checkpoints, recorder: LogRecorder, stream: Stream, head: int | None) -> None:
    """Erase a stream's checkpoints if it was deleted, or if words were erased after the head that was read.

    Call it after each write: another process may have erased the checkpoints before it. `head` None: the
    reading ended in the past.
    """
    assert stream.key is not None, "a conversation with entries has a stream"
    if head is None:
        is_outdated = recorder.conversations.name_of(stream.key) is None
    else:
        try:
            later = reader_module.entries_since(recorder, stream, head)
            is_outdated = any(erasure_of(entry.event) for entry in later)
        except PositionNotFoundError:
            is_outdated = True
    if is_outdated:
        checkpoints.erase_stream(stream.key)


def _put(conversation: StreamHandle, kept: PersistentFold[S], *runs: CheckpointRun) -> None:
    assert conversation.stream.key is not None, "a conversation with entries has a stream"
    conversation.log.checkpoints.put(conversation.stream.key, kept.fold.name, kept.version, *runs)


def _digest(read: Entry | Head) -> bytes:
    return bytes.fromhex(read.digest) if isinstance(read, Entry) else read.digest
