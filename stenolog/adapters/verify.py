"""Is the log what was written? Every digest, link, payload, blob and checkpoint, worked out anew.

Finds edits, bit rot, reordering and holes. A cut tail, or a chain that was recomputed as a whole, it
cannot find by itself: give it a head digest that was kept elsewhere.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.codec import REGISTRY
from stenolog.domain.entry import GENESIS, Entry, Record, digest_of, to_entry
from stenolog.domain.errors import StenologError
from stenolog.domain.events import Event, ModeSwitch, Unknown
from stenolog.domain.settings import NOTHING, configure
from stenolog.domain.step import INITIAL, step
from stenolog.projections.difference import first_difference

from . import viewing
from .conversation import Conversation
from .counters import COUNTERS
from .keeping import SETTINGS, STATE, Kept
from .log import Log
from .side_by_side import cores, together
from .stores import inspecting, reading, streams
from .stores.checkpoints import Run
from .stores.events import LAST
from .stores.failures import RAISED
from .stores.inspecting import Held, Unreadable

Code: TypeAlias = Literal[
    "file", "unreadable", "gap", "digest", "link", "payload", "blob", "checkpoint", "head"
]
Watch: TypeAlias = Callable[[Iterable[Any], str, int | None], Iterable[Any]]

TOGETHER = 16
"""So many conversations are a task."""
WORTH = 100_000
"""More entries are worth another process: that takes as long to start as to check some of them."""


class Problem(NamedTuple):
    """Something that is not as it was written.

    `pointer` is a JSON pointer into the entry at `position` (`/digest`, `/event/parts/0/text`), or into
    the checkpoint there. A problem of the file as a whole has no conversation and no position.
    """

    conversation: str
    position: int
    pointer: str
    code: Code
    expected: str
    found: str


class Anomaly(NamedTuple):
    """An entry that came out of order: the log is whole, and what it tells is odd."""

    conversation: str
    position: int
    lane: str
    what: str


class Checked(NamedTuple):
    """A conversation that was checked: where its head stands, and how many entries were checked.

    With a whole log, what a fork inherits is checked once, as its parent's.
    """

    conversation: str
    position: int
    digest: str
    entries: int


class Report(NamedTuple):
    """What `verify` found. `notes` name what this release does not know, and can therefore not prove."""

    conversations: tuple[Checked, ...]
    problems: tuple[Problem, ...]
    anomalies: tuple[Anomaly, ...]
    notes: tuple[str, ...]
    blobs: int

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(
    subject: Log | Conversation,
    *,
    head: str | None = None,
    watch: Watch | None = None,
    jobs: int | None = 1,
) -> Report:
    """Check a conversation, or a whole log with its file and its blobs.

    `head` is a digest kept elsewhere: it must stand somewhere in what is checked. `watch` is given the
    entries of one conversation, or the conversations of a log, to pass on, with a label and their number
    where it is known: it may show progress. `jobs` is a number of processes that check conversations side by
    side; None takes one for each processor, where that pays. What is damaged is reported, never raised.
    """
    log = subject if isinstance(subject, Log) else subject.log
    only = None if isinstance(subject, Log) else subject.name
    found = _Findings(head.lower() if head else None)
    with inspecting.inspecting(log.datastore) as connection:
        if only is None:
            found.problems += [_of_file(fault) for fault in inspecting.faults(connection)]
        try:
            held = [one for one in inspecting.conversations(connection) if only in (None, one.name)]
            if len(held) == 1:
                _Check(log, connection, held[0], found, watch, whole=only is not None).run()
            else:
                if jobs is None:
                    jobs = cores() if reading.newest(connection) > WORTH else 1
                parts: Iterable[_Findings] = _each(log, connection, held, found.head, jobs)
                for part in watch(parts, "verifying", len(held)) if watch else parts:
                    found.add(part)
            _check_blobs(connection, found, everything=only is None)
        except RAISED as error:
            found.problems.append(_of_file(str(error)))
    return found.report()


def _each(
    log: Log, connection: sqlite3.Connection, held: Sequence[Held], head: str | None, jobs: int
) -> Iterator[_Findings]:
    """What is found in each of the conversations."""
    if jobs < 2 or log.datastore.in_memory:
        return (_in_one(log, connection, one, head) for one in held)
    tasks = (held[first : first + TOGETHER] for first in range(0, len(held), TOGETHER))
    return chain.from_iterable(together(log, partial(_in_some, head), tasks, jobs))


def _in_some(head: str | None, log: Log, task: Sequence[Held]) -> list[_Findings]:
    with inspecting.inspecting(log.datastore) as connection:
        return [_in_one(log, connection, one, head) for one in task]


def _in_one(log: Log, connection: sqlite3.Connection, held: Held, head: str | None) -> _Findings:
    found = _Findings(head)
    _Check(log, connection, held, found, None, whole=False).run()
    return found


class _Findings:
    """What has been found so far."""

    def __init__(self, head: str | None) -> None:
        self.head = head
        self.head_seen = False
        self.checked: list[Checked] = []
        self.problems: list[Problem] = []
        self.anomalies: list[Anomaly] = []
        self.notes: list[str] = []
        self.named_blobs: dict[str, tuple[str, int, str]] = {}
        self.blobs = 0

    def add(self, other: _Findings) -> None:
        """Take in what was found in further conversations."""
        self.head_seen |= other.head_seen
        self.checked += other.checked
        self.problems += other.problems
        self.anomalies += other.anomalies
        self.notes += other.notes
        for sha, place in other.named_blobs.items():
            self.named_blobs.setdefault(sha, place)

    def report(self) -> Report:
        if self.head is not None and not self.head_seen:
            last = self.checked[-1] if len(self.checked) == 1 else Checked("", 0, "no entry with it", 0)
            self.problems.append(
                Problem(last.conversation, last.position, "/digest", "head", self.head, last.digest)
            )
        return Report(
            tuple(self.checked), tuple(self.problems), tuple(self.anomalies), tuple(self.notes), self.blobs
        )


class _Check:
    """One conversation, from its first entry. What a fork inherits is only followed, unless `whole`."""

    def __init__(
        self,
        log: Log,
        connection: sqlite3.Connection,
        held: Held,
        found: _Findings,
        watch: Watch | None,
        *,
        whole: bool,
    ) -> None:
        self.connection = connection
        self.held = held
        self.found = found
        self.watch = watch
        self.own_from = 0 if whole else held.fork
        self.previous: bytes | None = GENESIS  # None behind what could not be read
        self.position = 0
        self.entries = 0
        self.state = INITIAL
        self.settings = NOTHING
        self.kept: list[tuple[Kept[Any], _Kepts]] = [
            (kept, _Kepts(log, connection, held.stream, kept)) for kept in (STATE, SETTINGS)
        ]
        self.windows = [
            (kept, _Kepts(log, connection, held.stream, kept), window)
            for kept, window in viewing.marked(log.checkpoints, held.stream, COUNTERS, log.blobs)
        ]

    def run(self) -> None:
        records: Iterable[Record | Unreadable] = self._records()
        if self.watch:
            records = self.watch(records, f"verifying {self.held.name}", None)
        for record in records:
            if isinstance(record, Unreadable):
                self._lost(record)
            else:
                self._take(record)
        head = (self.previous or GENESIS).hex()
        self.found.checked.append(Checked(self.held.name, self.position, head, self.entries))

    def _records(self) -> Iterator[Record | Unreadable]:
        for segment in streams.lineage(self.connection, self.held.stream, LAST):
            yield from inspecting.records(self.connection, segment.stream, segment.after, segment.upto)
            if segment.stream != self.held.stream and self.position < segment.upto:
                self.position = segment.upto
                yield Unreadable(segment.upto, "/position", "the entry that was forked from", "nothing")

    def _lost(self, place: Unreadable) -> None:
        """An entry is missing: neither the next digest nor a later checkpoint can be compared."""
        self._problem(place.pointer, "unreadable", place.expected, place.found, place.position)
        self.position = max(self.position, place.position)
        self.previous = None
        self.kept, self.windows = [], []

    def _take(self, record: Record) -> None:
        own = record.position > self.own_from
        if own:
            self.entries += 1
            self._check_place(record)
        self.position = record.position
        self.previous = record.digest
        self.found.head_seen |= record.digest.hex() == self.found.head
        entry = self._decoded(record, own=own)
        if entry is not None:
            self._follow(entry, own=own)

    def _check_place(self, record: Record) -> None:
        expected = self.position + 1
        if record.position != expected:
            self._problem("/position", "gap", str(expected), str(record.position), record.position)
            self.previous = None
            self.kept, self.windows = [], []
        if self.previous is not None:
            digest = digest_of(self.previous, record)
            if digest != record.digest:
                self._problem("/digest", "digest", digest.hex(), record.digest.hex(), record.position)

    def _decoded(self, record: Record, *, own: bool) -> Entry | None:
        """The entry, once its event decodes and gives the same bytes again."""
        try:
            entry = to_entry(self.held.name, record)
            topic, payload = REGISTRY.dump(entry.event)
        except (StenologError, ValueError, TypeError, OverflowError) as error:
            if own:
                self._problem("/event", "payload", record.topic, str(error), record.position)
            return None
        if own and record.erased is not None:
            self.found.notes.append(f"{self.held.name!r} at position {record.position}: erased")
        if own and topic == record.topic and payload != record.payload:
            self._differs(record, payload)
        return entry

    def _differs(self, record: Record, payload: bytes) -> None:
        different = first_difference(json.loads(payload), json.loads(record.payload))
        pointer, expected, found = different or ("", "the bytes that the codec writes", "other bytes")
        self._problem(f"/event{pointer}", "payload", expected, found, record.position)

    def _follow(self, entry: Entry, *, own: bool) -> None:
        """Take the entry into the folds, and compare them with the checkpoints kept there."""
        self.state, moves = step(self.state, entry)
        self.settings = configure(self.settings, entry)
        for _, _, window in self.windows:
            window.take(entry)
        if not own:
            return
        self.found.anomalies += [
            Anomaly(self.held.name, move.position, move.lane, move.anomaly) for move in moves if move.anomaly
        ]
        if isinstance(entry.event, Unknown) and not entry.event.ignorable:
            what = f"this release does not know {entry.event.topic}"
            self.found.notes.append(f"{self.held.name!r} at position {entry.position}: {what}")
        if self.held.parent is not None and entry.position == self.held.fork + 1:
            self._check_link(entry)
        for pointer, sha in _blobs_of(entry.event):
            self.found.named_blobs.setdefault(sha, (self.held.name, entry.position, pointer))
        for (kept, kepts), state in zip(self.kept, (self.state, self.settings), strict=False):
            if told := kepts.at(entry.position):
                self._check_checkpoints(kept, kepts, told, state, entry.position)
        for kept, kepts, window in self.windows:
            if told := kepts.at(entry.position):
                self._check_checkpoints(kept, kepts, told, window.mark, entry.position)

    def _check_link(self, entry: Entry) -> None:
        """A fork's opening names the position that its row in the table forks at."""
        link = entry.event.parent if isinstance(entry.event, ModeSwitch) else None
        stands = getattr(link, "position", None)
        if stands != self.held.fork:
            self._problem("/event/parent/position", "link", str(self.held.fork), str(stands), entry.position)

    def _check_checkpoints(
        self, kept: Kept[Any], kepts: _Kepts, told: list[bytes], folded: Any, position: int
    ) -> None:
        """A checkpoint equals the fold from zero; of several that do not, the first tells all."""
        true = kept.dump(folded)
        for state in told:
            different = None if state == true else first_difference(json.loads(true), json.loads(state))
            if different:
                pointer = f"/{kept.fold.name}{different.pointer}"
                self._problem(pointer, "checkpoint", different.expected, different.found, position)
                kepts.clear()
                return

    def _problem(self, pointer: str, code: Code, expected: str, found: str, position: int) -> None:
        self.found.problems.append(Problem(self.held.name, position, pointer, code, expected, found))


class _Kepts:
    """What checkpoints tell of a fold, position by position; those of another log nobody would use."""

    def __init__(self, log: Log, connection: sqlite3.Connection, stream: int, kept: Kept[Any]) -> None:
        self._connection = connection
        self._segments = streams.lineage(connection, stream, LAST)
        self._coming = log.checkpoints.runs(stream, kept.fold.name, kept.version)
        self._next = next(self._coming, None)
        self._here: list[Run] = []

    def at(self, position: int) -> list[bytes]:
        """The states that are kept for a position; positions are asked for in order."""
        while self._next is not None and self._next.first <= position:
            if position <= self._next.last and self._agrees(self._next):
                self._here.append(self._next)
            self._next = next(self._coming, None)
        self._here = [run for run in self._here if position <= run.last]
        return [state for run in self._here if (state := run.at(position)) is not None]

    def clear(self) -> None:
        """Tell nothing any more."""
        self._next, self._here = None, []

    def _agrees(self, run: Run) -> bool:
        return reading.digest_on(self._connection, self._segments, run.last) == run.digest


def _check_blobs(connection: sqlite3.Connection, found: _Findings, *, everything: bool) -> None:
    """Every blob that is named must be there and whole; with `everything`, every blob that is there too."""
    whole = dict(inspecting.blobs(connection) if everything or found.named_blobs else ())
    found.blobs = len(whole)
    for sha, (conversation, position, pointer) in found.named_blobs.items():
        if not whole.pop(sha, False):
            problem = Problem(conversation, position, pointer, "blob", sha, "no such blob, or a damaged one")
            found.problems.append(problem)
    for sha, sound in whole.items():
        if not sound:
            found.problems.append(Problem("", 0, f"/blobs/{sha}", "blob", sha, "other bytes"))


def _blobs_of(event: Event) -> Iterator[tuple[str, str]]:
    """The blobs that an event names, each with its JSON pointer."""
    if sha := getattr(event, "blob", ""):
        yield "/event/blob", sha
    for at, part in enumerate(getattr(event, "parts", ())):
        if sha := getattr(part, "blob", ""):
            yield f"/event/parts/{at}/blob", sha


def _of_file(fault: str) -> Problem:
    return Problem("", 0, "", "file", "a sound database", fault)
