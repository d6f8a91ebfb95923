"""Check of a conversation, recomputed from the start."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from stenolog.adapters.conversation.log import Log
from stenolog.adapters.conversation.queries.folds import SETTINGS, STATE, PersistentFold
from stenolog.adapters.store.contract.blobs import shas_in
from stenolog.adapters.store.contract.inspection import ConversationRow, DamagedRow, Inspection
from stenolog.adapters.store.contract.values import LAST, Segment
from stenolog.adapters.store.sidecar.checkpoints import CheckpointRun
from stenolog.domain.codec import REGISTRY
from stenolog.domain.entry import GENESIS, Entry, Record, digest_of, left_hash, to_entry
from stenolog.domain.erasure import ERASED, ORIGINAL, WITHHELD, erasure_of
from stenolog.domain.errors import StenologError
from stenolog.domain.events import AssistantMessage, Event, ModeSwitch, Unknown
from stenolog.domain.lanes.state import State
from stenolog.domain.lanes.step import INITIAL, step
from stenolog.domain.settings import NOTHING, Settings, configure
from stenolog.projections.json_checks import first_difference
from stenolog.projections.messages.json_fields import as_dict
from stenolog.projections.views.usage import counts_elsewhere

from .report import Anomaly, Checked, Code, Findings, Problem, WithoutReceipt

Watch: TypeAlias = Callable[[Iterable[Any], str, int | None], Iterable[Any]]


class Place(NamedTuple):
    """A stream's position at which conversations were forked."""

    key: int
    position: int


class Reached(NamedTuple):
    """The values computed from a conversation up to a position."""

    digest: bytes | None
    state: State
    settings: Settings


class Forks:
    """Results at fork positions; without them a chain of forks would be folded again for each."""

    def __init__(self, held: Iterable[ConversationRow]) -> None:
        self._wanted = Counter(Place(one.parent, one.fork) for one in held if one.parent is not None)
        self._reached: dict[Place, Reached] = {}

    def passed(self, place: Place, reached: Callable[[], Reached]) -> None:
        """Remember the state here, if a conversation was forked here."""
        if self._wanted[place] > 0:
            self._reached[place] = reached()

    def pop(self, place: Place) -> Reached | None:
        """Return the state there; it is forgotten with the last fork."""
        self._wanted[place] -= 1
        return self._reached.get(place) if self._wanted[place] > 0 else self._reached.pop(place, None)


class Check:
    """One conversation from its first entry. Inherited entries are only followed, unless `forks` is None."""

    def __init__(
        self,
        log: Log,
        inspection: Inspection,
        held: ConversationRow,
        found: Findings,
        watch: Watch | None,
        *,
        forks: Forks | None = None,
    ) -> None:
        self.log = log
        self.inspection = inspection
        self.held = held
        self.found = found
        self.watch = watch
        self.forks = forks
        self.own_from = 0 if forks is None else held.fork
        self.previous: bytes | None = GENESIS  # None behind what could not be read
        self.position = 0
        self.entries = 0
        self.state = INITIAL
        self.settings = NOTHING
        self._withheld: dict[int, frozenset[int]] = {}
        self.kept: list[tuple[PersistentFold[Any], Kepts]] = [
            (kept, Kepts(log, inspection, held.key, kept)) for kept in (STATE, SETTINGS)
        ]

    def run(self) -> None:
        """Check it, and note its end."""
        for wrong in self.held.wrong:
            self._problem(wrong.pointer, "unreadable", wrong.expected, wrong.found, 0)
        for wrong in self.inspection.outside(self.held):
            self._problem(wrong.pointer, "gap", wrong.expected, wrong.found, wrong.position)
        self._go_on_from_parent()
        records: Iterable[Record | DamagedRow] = self._records()
        if self.watch:
            records = self.watch(records, f"verifying {self.held.name}", None)
        for record in records:
            if isinstance(record, DamagedRow):
                self._lost(record)
            else:
                self._check(record)
        head = (self.previous or GENESIS).hex()
        self.found.checked.append(Checked(self.held.name, self.position, head, self.entries))

    def _go_on_from_parent(self) -> None:
        held = self.held
        if self.forks is None or held.parent is None:
            return
        reached = self.forks.pop(Place(held.parent, held.fork))
        if reached is not None:
            self.previous, self.state, self.settings = reached
            self.position = held.fork

    def _records(self) -> Iterator[Record | DamagedRow]:
        if self.position:
            yield from self.inspection.records(self.held.key, self.position, LAST)
            return
        for segment in self.inspection.lineage(self.held.key):
            yield from self.inspection.records(segment.key, segment.after, segment.upto)
            if segment.key != self.held.key and self.position < segment.upto:
                self.position = segment.upto
                yield DamagedRow(segment.upto, "/position", "the entry that was forked from", "nothing")

    def _lost(self, place: DamagedRow) -> None:
        """Note a missing entry: the next digest and later checkpoints cannot be compared."""
        self._problem(place.pointer, "unreadable", place.expected, place.found, place.position)
        self.position = max(self.position, place.position)
        self.previous = None
        self.kept = []

    def _check(self, record: Record) -> None:
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
        if self.forks is not None:
            self.forks.passed(Place(self.held.key, record.position), self._reached)

    def _reached(self) -> Reached:
        return Reached(self.previous, self.state, self.settings)

    def _check_place(self, record: Record) -> None:
        expected = self.position + 1
        if record.position != expected:
            self._problem("/position", "gap", str(expected), str(record.position), record.position)
            self.previous = None
            self.kept = []
        if self.previous is not None:
            digest = digest_of(self.previous, record)
            if digest != record.digest:
                self._problem("/digest", "digest", digest.hex(), record.digest.hex(), record.position)

    def _decoded(self, record: Record, *, own: bool) -> Entry | None:
        """Return the entry, once its event decodes and gives the same bytes."""
        try:
            entry = to_entry(self.held.name, record)
            topic, payload = REGISTRY.dump(entry.event)
        except (StenologError, ValueError, TypeError, OverflowError) as error:
            if own:
                self._problem("/event", "payload", record.topic, str(error), record.position)
            return None
        if own and record.erased is not None:
            left, stream = left_hash(record.payload), self._stream_of(record.position)
            self.found.erased[stream, record.position] = left
            if stream not in self._withheld:
                self._withheld[stream] = self.inspection.withheld(stream)
            is_withheld = record.position in self._withheld[stream]
            how = WITHHELD if is_withheld else "erased, but for its effects" if left else ERASED
            self.found.notes.append(f"{self.held.name!r} at position {record.position}: {how}")
        if own and topic == record.topic and payload != record.payload:
            self._differs(record, payload)
        return entry

    def _stream_of(self, position: int) -> int:
        if position > self.held.fork:
            return self.held.key
        segments = self.inspection.lineage(self.held.key)
        return next((one.key for one in segments if one.after < position <= one.upto), self.held.key)

    def _differs(self, record: Record, payload: bytes) -> None:
        different = first_difference(json.loads(payload), json.loads(record.payload))
        pointer, expected, found = different or ("", "the bytes that the codec writes", "other bytes")
        self._problem(f"/event{pointer}", "payload", expected, found, record.position)

    def _follow(self, entry: Entry, *, own: bool) -> None:
        self.state, moves = step(self.state, entry)
        self.settings = configure(self.settings, entry)
        if not own:
            return
        self.found.anomalies += [
            Anomaly(self.held.name, move.position, move.lane, move.anomaly) for move in moves if move.anomaly
        ]
        match entry.event:
            case AssistantMessage(receipt=None, source=None) as said if not counts_elsewhere(said):
                day, place = f"{entry.time:%Y-%m-%d}", (self.held.name, entry.position)
                self.found.add_without_receipt(WithoutReceipt(said.agent, day, 1, *place))
            case _:
                pass
        if erased := erasure_of(entry.event):
            why = f": {erased.reason}" if erased.reason else ""
            which = ", ".join(map(str, erased.positions))
            self.found.told_erased |= {
                (self._stream_of(at), at) for at in erased.positions if at < entry.position
            }
            note = f"{erased.by or 'someone unnamed'} erased {which}{why}"
            self.found.notes.append(f"{self.held.name!r} at position {entry.position}: {note}")
        if isinstance(entry.event, Unknown) and not entry.event.ignorable:
            what = f"this release does not know {entry.event.topic}"
            self.found.notes.append(f"{self.held.name!r} at position {entry.position}: {what}")
        if self.held.parent is not None and entry.position == self.held.fork + 1:
            self._check_link(entry)
        for pointer, sha in blobs_of(entry.event):
            self.found.named_blobs.setdefault(sha, (self.held.name, entry.position, pointer))
        if isinstance(entry.event, ModeSwitch) and ORIGINAL in entry.event.meta:
            pieces = as_dict(entry.event.meta[ORIGINAL]).get("pieces", [])
            named = shas_in(json.dumps(pieces).encode())
            self.found.kept_blobs |= dict.fromkeys(named, (self.held.name, entry.position))
        for (kept, kepts), state in zip(self.kept, (self.state, self.settings), strict=False):
            if states := kepts.at(entry.position):
                self._check_checkpoints(kept, kepts, states, state, entry.position)

    def _check_link(self, entry: Entry) -> None:
        link = entry.event.parent if isinstance(entry.event, ModeSwitch) else None
        stands = getattr(link, "position", None)
        if stands != self.held.fork:
            self._problem("/event/parent/position", "link", str(self.held.fork), str(stands), entry.position)

    def _check_checkpoints(
        self, kept: PersistentFold[Any], kepts: Kepts, states: list[bytes], folded: Any, position: int
    ) -> None:
        """Compare checkpoints with the fold from zero; report the first that differs."""
        true = kept.dump(folded)
        for state in states:
            different = None if state == true else first_difference(json.loads(true), json.loads(state))
            if different:
                pointer = f"/{kept.fold.name}{different.pointer}"
                self._problem(pointer, "checkpoint", different.expected, different.found, position)
                kepts.clear()
                return

    def _problem(self, pointer: str, code: Code, expected: str, found: str, position: int) -> None:
        self.found.problems.append(Problem(self.held.name, position, pointer, code, expected, found))


class Kepts:
    """A fold's checkpoints by position, without those of another log, which are never used."""

    def __init__(self, log: Log, inspection: Inspection, key: int, kept: PersistentFold[Any]) -> None:
        self._inspection = inspection
        self._stream = key
        self._coming = log.checkpoints.runs(key, kept.fold.name, kept.version)
        self._next = next(self._coming, None)
        self._here: list[CheckpointRun] = []

    def at(self, position: int) -> list[bytes]:
        """Return the checkpoints at a position; positions must increase."""
        while self._next is not None and self._next.first <= position:
            if position <= self._next.last and self._agrees(self._next):
                self._here.append(self._next)
            self._next = next(self._coming, None)
        self._here = [run for run in self._here if position <= run.last]
        return [state for run in self._here if (state := run.at(position)) is not None]

    def clear(self) -> None:
        """Return nothing from now on."""
        self._next, self._here = None, []

    @cached_property
    def _segments(self) -> tuple[Segment, ...]:
        return self._inspection.lineage(self._stream)

    def _agrees(self, run: CheckpointRun) -> bool:
        kept_in = (one.key for one in self._segments if one.after < run.last <= one.upto)
        return run.digest in (self._inspection.digest_at(key, run.last) for key in kept_in)


def blobs_of(event: Event) -> Iterator[tuple[str, str]]:
    """Yield an event's blobs, each with its JSON pointer."""
    if sha := getattr(event, "blob", ""):
        yield "/event/blob", sha
    for at, part in enumerate(getattr(event, "parts", ())):
        if sha := getattr(part, "blob", ""):
            yield f"/event/parts/{at}/blob", sha
