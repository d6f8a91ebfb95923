"""Decision which rows of a damaged log are intact, by the chain of digests. Pure.

An entry that follows the previous digest is intact. If that is lost, it is kept and reported as unchecked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple, TypeAlias

from stenolog.adapters.store.sqlite.statements.event_rows import decompressed
from stenolog.domain.codec import dump_event
from stenolog.domain.entry import GENESIS, LONGEST_NAME, Record, check_name, digest_of, left_hash, to_entry
from stenolog.domain.erasure import is_erased
from stenolog.domain.errors import StenologError
from stenolog.domain.events import Unknown
from stenolog.domain.history import (
    DELETED,
    ERASED,
    HELD,
    KEPT,
    RELEASED,
    Change,
    History,
    Hold,
    Listed,
    hold_of,
)
from stenolog.domain.history import digest_of as digest_of_change

from .raw_pages import RawRow

WIDEST_GAP = 64
"""Positions: more rows than a page has. After a wider gap an entry counts if the next one confirms it."""
POSITION_BITS = 62
Digests: TypeAlias = frozenset[bytes]
"""The digests that a position may have had: several if a row is damaged, none if it is gone."""


class Candidate(NamedTuple):
    """A row that may be the entry at its position. `carved`: found byte by byte."""

    record: Record
    carved: bool


Candidates: TypeAlias = dict[int, list[Candidate]]


class LostEntry(NamedTuple):
    """An unreadable entry. `id` may be empty or damaged."""

    position: int
    reason: str
    id: str = ""


class Walked(NamedTuple):
    """A stream's intact and lost entries, and the digests before the salvage."""

    kept: dict[int, Record]
    lost: dict[int, LostEntry]
    unproved: tuple[int, ...]
    digests: dict[int, Digests]


class FoundRows:
    """All rows found: conversations, candidates for each position, blobs."""

    def __init__(self, rows: Iterable[RawRow]) -> None:
        self.candidates: dict[int, Candidates] = defaultdict(dict)
        self.blobs: dict[str, bytes] = {}
        self.lost_blobs: set[str] = set()
        self.newest = 0
        changes: dict[int, list[Change]] = defaultdict(list)
        listed: dict[int, Listed] = {}
        for row in rows:
            match row.table:
                case "stored_events":
                    self._add_entry(row)
                case "history":
                    changes[row.rowid].append(Change(row.rowid, *row.values[1:]))
                case "conversations":
                    listed.setdefault(row.rowid, Listed(*row.values[1:]))
                case _:
                    self._add_blob(row)
        self.lost_blobs -= self.blobs.keys()
        taken, self.history_is_whole = _sound(changes)
        gone = {change.stream for change in taken if change.what == DELETED}
        self.deleted_up_to = max((change.value for change in taken if change.what == DELETED), default=0)
        for key in gone:
            self.candidates.pop(key, None)
        for change in taken:
            if change.what == ERASED and change.stream not in gone:
                self._drop_payload(change.stream, change.value)
        history = History()
        for change in taken:
            history.take(change)
        self.imported = history.imported
        self.damaged_holds = _damaged_holds(changes, taken)
        self.holds = dict(sorted({**history.holds, **self.damaged_holds}.items()))
        self.withheld = history.withheld
        self._keep_effects(history)
        known = {**listed, **history.listed} if self.history_is_whole else {**history.listed, **listed}
        self.conversations = _uniquely_named({key: one for key, one in known.items() if key not in gone})

    def orphans(self) -> list[int]:
        """Return the streams with entries that decode, and without a conversation."""
        return sorted(
            key
            for key, found in self.candidates.items()
            if key not in self.conversations and any(found.values())
        )

    def _add_entry(self, row: RawRow) -> None:
        key, position, id, at, topic, salt, digest, size, erased, state = row.values[1:]
        if size is None:
            size = len(state)
        elif erased is None:
            state = decompressed(state, size)
        candidate = Candidate(Record(position, id, at, topic, salt, state, digest, size, erased), row.carved)
        there = self.candidates[key].setdefault(position, [])
        if candidate not in there:
            there.insert(len(there) if erased is None else 0, candidate)  # an erased version is the newest
        if not row.carved:
            self.newest = max(self.newest, row.rowid)

    def _add_blob(self, row: RawRow) -> None:
        _, key, content = row.values
        if sha256(content).digest() == key:
            self.blobs[key.hex()] = content
        elif not row.carved and len(key) == sha256().digest_size:
            self.lost_blobs.add(key.hex())

    def _keep_effects(self, history: History) -> None:
        """Ignore what is beside an erasure's mark, unless its record has it."""
        for key, found in self.candidates.items():
            for position, there in found.items():
                for at, one in enumerate(there):
                    record, left = one.record, history.erased.get((key, position))
                    if record.erased is not None and left_hash(record.payload) != (left or ""):
                        there[at] = one._replace(record=record._replace(payload=b""))

    def _drop_payload(self, key: int, position: int) -> None:
        there = self.candidates[key].get(position, [])
        self.candidates[key][position] = [one for one in there if one.record.erased is not None]


def walk(candidates: Candidates, after: int, before: Digests, until: int) -> Walked:
    """Follow a stream's chain after the position `after`, whose digest is one of `before`.

    `until` is a position that the stream must have, since a fork begins there.
    """
    made = Walked({}, {}, (), {})
    unproved: list[int] = []
    used: set[int] = set()
    previous, expected = before, after + 1
    is_certain = bool(before)  # not behind a damaged row: its digest may be damaged too
    for position in sorted({*candidates, until}):
        if position < expected or position in used:
            continue
        there = candidates.get(position, [])
        if position > expected and (stray := _strayed(candidates, expected, previous)):
            used.add(stray.position)
            record = stray._replace(position=expected)
            made.kept[expected], made.digests[expected] = record, frozenset((record.digest,))
            previous, expected, is_certain = made.digests[expected], expected + 1, True
        known = previous if position == expected else frozenset()
        is_certain = is_certain and position == expected
        following = [one.record for one in candidates.get(position + 1, ())]
        found, is_proved = _intact(there, known, following)
        if found is None and not is_certain:
            found = _plausible(there, following, is_near=position - expected < WIDEST_GAP)
        if found is None and position != until and not (known or _confirmed(there, following)):
            continue  # a row whose position is damaged tells nothing about this place
        for missing in range(expected, position):
            made.lost[missing] = LostEntry(missing, "its row is gone")
        if found is not None:
            made.kept[position] = found
            previous = frozenset((found.digest,))
            unproved += [] if is_proved else [position]
        else:
            reason, id = ("its row is damaged", there[0].record.id) if there else ("its row is gone", "")
            made.lost[position] = LostEntry(position, reason, id)
            computed = {digest_of(digest, one.record) for one in there for digest in known}
            previous = frozenset({one.record.digest for one in there} | computed)
        made.digests[position] = previous
        expected, is_certain = position + 1, found is not None
    return made._replace(unproved=tuple(unproved))


def _intact(
    there: Sequence[Candidate], known: Digests, following: Sequence[Record]
) -> tuple[Record | None, bool]:
    """Return the intact entry among the candidates, and whether that is proved."""
    for one, _ in there:
        if any(digest_of(before, one) == one.digest for before in known):
            return one, True
    for one, _ in there:
        for digest in (digest_of(before, one) for before in known):
            if any(digest_of(digest, other) == other.digest for other in following):
                return one._replace(digest=digest), True  # its digest alone is damaged
    return None, False


def _plausible(there: Sequence[Candidate], following: Sequence[Record], *, is_near: bool) -> Record | None:
    """Return an entry that cannot be checked, and that decodes."""
    for each in there:
        if _decodes(each.record) and (_confirmed([each], following) or (is_near and not each.carved)):
            return each.record
    return None


def _confirmed(there: Sequence[Candidate], following: Sequence[Record]) -> bool:
    return any(digest_of(one.record.digest, other) == other.digest for one in there for other in following)


def _strayed(candidates: Candidates, expected: int, known: Digests) -> Record | None:
    for bit in range(POSITION_BITS):
        for one in candidates.get(expected ^ 1 << bit, ()):
            moved = one.record._replace(position=expected)
            if any(digest_of(before, moved) == moved.digest for before in known):
                return one.record
    return None


def _decodes(record: Record) -> bool:
    """Return whether an entry is one that this release could have written."""
    try:
        event = to_entry(check_name(record.id, what="entry id"), record).event
        return is_erased(event) or (event.kind != Unknown.kind and dump_event(event)[1] == record.payload)
    except (StenologError, ValueError, TypeError, OverflowError):
        return False


def _sound(changes: Mapping[int, Sequence[Change]]) -> tuple[list[Change], bool]:
    """Return the history's records that follow their predecessors, and whether all do.

    After a missing record, the next is accepted.
    """
    taken: list[Change] = []
    previous, expected, is_whole = {GENESIS}, 1, True
    for number in sorted(changes):
        # A name is erased with its conversation: that version of a record is the newest one.
        versions = sorted(changes[number], key=lambda change: change.erased is None)
        known = previous if number == expected else set[bytes]()
        sound = [one for one in versions if any(digest_of_change(d, one) == one.digest for d in known)]
        if not sound and not known:
            sound = versions[:1]
        is_whole = is_whole and bool(known) and bool(sound)
        taken += sound[:1]
        previous = {one.digest for one in sound[:1] or versions}
        if not sound:
            previous |= {digest_of_change(before, one) for one in versions for before in known}
        expected = number + 1
    return taken, is_whole


def _damaged_holds(changes: Mapping[int, Sequence[Change]], taken: Sequence[Change]) -> dict[int, Hold]:
    """Return the holds whose records are readable, though not as they were written, and not released."""
    free = {change.number for change in taken}
    free |= {change.value for change in taken if change.what == RELEASED}
    return {
        number: hold_of(change)
        for number in sorted(changes.keys() - free)
        for change in changes[number]
        if change.what in (HELD, KEPT)
    }


def _uniquely_named(known: Mapping[int, Listed]) -> dict[int, Listed]:
    """Return conversations by stream, with valid and unique names."""
    made: dict[int, Listed] = {}
    taken: set[str] = set()
    for key, listed in sorted(known.items()):
        name = listed.name
        if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or name != name.strip():
            name = f"conversation {key}"
        if name in taken:
            name = f"{name[: LONGEST_NAME - 25]} ({key})"
        taken.add(name)
        made[key] = listed._replace(name=name)
    return made
